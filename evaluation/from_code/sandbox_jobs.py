"""Runs the work in the sandbox: in threads that stop together, and again after faults, so that none decides
what becomes of a function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from evaluation.from_code.reasons import SandboxFaultError, StoppedError
from evaluation.sandbox import SandboxResult, retry_faults
from evaluation.sandbox.supervisor import is_stopped, stop_jobs_on
from evaluation.verdicts import Status

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_parallel(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Generator[Result, None, None]:
    """The results as they come. The sandbox's jobs of the others are stopped where one fails or the caller closes this,
    and their results do not count."""
    stop = threading.Event()

    def run_one(item: Item) -> Result:
        with stop_jobs_on(stop):
            result = function(item)
        if stop.is_set():
            raise StoppedError
        return result

    executor = ThreadPoolExecutor(workers, "from-code")
    try:
        for future in as_completed([executor.submit(run_one, item) for item in items]):
            yield future.result()
    finally:
        stop.set()
        executor.shutdown(cancel_futures=True)


def run_without_sandbox_faults(attempt: Callable[[], SandboxResult]) -> SandboxResult:
    """The result of a job, which is tried again after faults of the sandbox.

    A test that cannot be loaded is the task's fault and comes back as it is. Raises SandboxFaultError where other
    faults last, and StoppedError where the work was stopped meanwhile.
    """

    def attempt_unless_stopped() -> SandboxResult:
        if is_stopped():
            raise StoppedError
        return attempt()

    result = retry_faults(attempt_unless_stopped)
    if is_stopped():
        raise StoppedError
    if result.status == Status.SANDBOX_ERROR and not result.lasting:
        raise SandboxFaultError(f"the sandbox failed repeatedly: {result.detail[:200]}")
    return result
