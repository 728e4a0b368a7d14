"""How many threads PyTorch uses: all of them, or one while ONNX Runtime's threads compute between its operations.

With 8-bit weights PyTorch computes only the attention and other small operations, between two graphs of ONNX Runtime.
Its idle OpenMP threads spin for a moment after each operation (`decoding/__init__.py`), on the cores that the next
graph needs. So only one of the two libraries may have threads awake: PyTorch has one thread there, except for work that
is long enough to be worth waking the others, while no graph runs.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


class _Outside(threading.local):
    """`n` are the threads that the calling thread has outside of `use_one_thread`, None where that is not active."""

    n: int | None = None


_outside = _Outside()


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Let PyTorch compute on the calling thread alone, as long as the context lasts; other threads are not affected."""
    if _outside.n is not None:
        yield
        return
    n = torch.get_num_threads()
    _set(n=1, outside=n)
    try:
        yield
    finally:
        _set(n=n, outside=None)


@contextmanager
def use_all_threads() -> Iterator[None]:
    """Inside `use_one_thread`, let PyTorch use all its threads again; elsewhere do nothing."""
    n = _outside.n
    if n is None:
        yield
        return
    _set(n=n, outside=None)
    try:
        yield
    finally:
        _set(n=1, outside=n)


def count_threads() -> int:
    """Return the threads that PyTorch has for work that is not limited to one."""
    return _outside.n or torch.get_num_threads()


def _set(*, n: int, outside: int | None) -> None:
    _outside.n = outside
    _set_num_threads(n)


def _find_setter() -> Callable[[int], None]:
    """Return OpenMP's own function, which sets the number for the calling thread.

    PyTorch's sets it for threads that start later as well: a thread that starts inside `use_one_thread` would keep one
    thread.
    """
    try:
        setter: Callable[[int], None] = ctypes.CDLL(None).omp_set_num_threads
    except (AttributeError, OSError, TypeError):  # an OpenMP library that is not visible to the process
        return torch.set_num_threads
    return setter


_set_num_threads = _find_setter()
