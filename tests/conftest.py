"""Where the tests run, and what garbage collection leaves alone."""

from __future__ import annotations

import gc

from tests.forked_run import pytest_addoption, pytest_collection, pytest_runtestloop

__all__ = ["pytest_addoption", "pytest_collection", "pytest_runtestloop"]


def pytest_collection_finish() -> None:
    """Hide millions of objects that stay to the end from the garbage collector: it took a second each time."""
    gc.freeze()
