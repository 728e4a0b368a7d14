"""Processes that this test process started: other tests and other programs run on the same machine."""

from __future__ import annotations

import psutil


def list_own_processes(word: str) -> list[psutil.Process]:
    """Returns the living descendants whose command line contains `word`; one that ends meanwhile is left out."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if any(word in part for part in process.cmdline()):
                found.append(process)
        except psutil.Error:  # a zombie has no command line
            continue
    return found
