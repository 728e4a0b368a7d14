"""Which tests share a process, and which start first."""

from __future__ import annotations

import gc

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

_TOGETHER = ("e2e", "integration")
"""Folders whose tests share what takes long to start: a browser and a populated service, PostgreSQL and Redis."""


class FolderScheduling(LoadFileScheduling):
    """Gives the tests of a file to one process, and those of some folders, too."""

    def _split_scope(self, nodeid: str) -> str:
        folder = nodeid.split("/")[1]
        return folder if folder in _TOGETHER else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FolderScheduling:
    """Return the scheduler of the whole run."""
    return FolderScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the folders that stay together start first, so that no process waits for another at the end."""
    items.sort(key=lambda item: item.nodeid.split("/")[1] not in _TOGETHER)


def pytest_collection_finish() -> None:
    """Hide millions of objects that stay to the end from the garbage collector: it took a second each time."""
    gc.freeze()
