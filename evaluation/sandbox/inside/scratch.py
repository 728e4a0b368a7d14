"""The scratch folder: the only place where the tests of a project may write, empty when each job starts.

It is a file system of its own in memory, whose size the kernel limits. The number of files takes memory beside that,
and the zygote watches it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MAX_FILES = 10_000


class Scratch:
    """The folder. Only the zygote uses this: to empty it while no job runs, and to look at it meanwhile."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self.empty()

    def has_been_used(self) -> bool:
        """Whether anything was made in the folder since it was emptied, though it may be gone again."""
        return self._folder.stat().st_mtime_ns != self._changed_ns

    def has_too_many_files(self) -> bool:
        """Whether there are more files than a job may have."""
        facts = os.statvfs(self._folder)
        return facts.f_files - facts.f_ffree > MAX_FILES

    def empty(self) -> None:
        """Remove all content. A job may have nested folders deeper than a path or the stack reaches, so every folder
        below the first level is moved up before its parent goes.
        """
        self._folder.chmod(0o700)
        prefix, number = os.urandom(8).hex(), 0
        while entries := list(self._folder.iterdir()):
            for entry in entries:
                if not _is_folder(entry):
                    entry.unlink()
                    continue
                entry.chmod(0o700)
                for inner in list(entry.iterdir()):
                    if _is_folder(inner):
                        inner.chmod(0o700)
                        inner.rename(self._folder / f"{prefix}{number}")
                        number += 1
                    else:
                        inner.unlink()
                entry.rmdir()
        self._changed_ns = self._folder.stat().st_mtime_ns


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)
