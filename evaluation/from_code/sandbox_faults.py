"""Retries jobs after faults of the sandbox, so that none decides what becomes of a function."""

from __future__ import annotations

from collections.abc import Callable

from evaluation.from_code.reasons import SandboxFaultError, StoppedError
from evaluation.sandbox import SandboxResult, retry_faults
from evaluation.sandbox.supervisor import is_stopped
from evaluation.verdicts import Status


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
