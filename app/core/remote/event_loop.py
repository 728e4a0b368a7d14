"""Runs a coroutine to its end from synchronous code."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def run_in_own_loop(work: Coroutine[None, None, T]) -> T:
    """The result of a coroutine, in an event loop of its own: in a thread of its own where this one runs another loop.

    asyncio.run would wait for a name server that does not answer, beyond the deadline.
    """
    if asyncio._get_running_loop() is None:
        return _run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_run, work).result()


def _run(work: Coroutine[None, None, T]) -> T:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
