"""Runs a function on many items in threads; what is left is stopped where one fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from evaluation.from_code.reasons import StoppedError
from evaluation.sandbox.supervisor import stop_jobs_on

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_parallel(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """The results as they come. The sandbox's jobs of the others are stopped where one fails or the caller ends, and
    their results do not count."""
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
