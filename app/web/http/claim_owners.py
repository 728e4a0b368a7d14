"""Names processes so that a later one can tell whether they are gone."""

from __future__ import annotations

import os
import socket
from functools import cache

import psutil

SAME_START_S = 1.0  # by which the start of one process may differ between two readings


def name_this_process() -> str:
    """HOST PID START: unique, since a process with the same id on this host began at another time."""
    return _name_process(socket.gethostname(), os.getpid())


@cache
def _name_process(host: str, pid: int) -> str:
    return f"{host} {pid} {psutil.Process(pid).create_time():.2f}"


def is_gone(owner: str | None) -> bool:
    """Whether a process that `name_this_process` named has ended. False for one of another host."""
    if owner is None:
        return True  # of a version that named none
    host, pid, started = owner.split()
    if host != socket.gethostname():
        return False
    try:
        process = psutil.Process(int(pid))
        is_same = abs(process.create_time() - float(started)) <= SAME_START_S
        return not is_same or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
