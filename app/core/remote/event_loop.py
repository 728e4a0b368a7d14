"""Runs a coroutine to its end from synchronous code."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def run_in_own_loop(work: Coroutine[None, None, T]) -> T:
    """The result of a coroutine, in an event loop of its own.

    asyncio.run would wait for a name server that does not answer, beyond the deadline.
    """
    loop = asyncio.new_event_loop()
    try:
        return run_on_loop(loop, work)
    finally:
        loop.close()


def run_on_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[None, None, T]) -> T:
    """The result of a coroutine on a loop that does not run: in another thread where this one runs a loop already."""
    if asyncio._get_running_loop() is None:
        return loop.run_until_complete(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(loop.run_until_complete, work).result()
