"""The processes that this one started, directly or not: found wherever they end up, and no others of the machine."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
from collections.abc import Collection, Iterator

import psutil

_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 1, 36, 37


@contextlib.contextmanager
def adopt_orphans() -> Iterator[None]:
    """Inside, a descendant whose parent has ended becomes a child of this process, so `find_descendants` finds it."""
    if _PRCTL is None:
        yield
        return
    before = ctypes.c_int()
    _PRCTL(_GET_CHILD_SUBREAPER, ctypes.byref(before))
    _PRCTL(_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _PRCTL(_SET_CHILD_SUBREAPER, before.value)


def end_with_parent() -> None:
    """Call it in a new process before exec: the kernel then kills that process when its parent ends."""
    if _PRCTL is not None:
        _PRCTL(_SET_PDEATHSIG, signal.SIGKILL)


def find_descendants(except_children: Collection[psutil.Process]) -> list[psutil.Process]:
    """All descendants of this process, parents first, without `except_children` and their descendants."""
    found: list[psutil.Process] = []
    for child in set(psutil.Process().children()).difference(except_children):
        found.append(child)
        with contextlib.suppress(psutil.Error):
            found += child.children(recursive=True)
    return found
