"""The scratch folder: the only place where the tests of a project may write, empty when each job starts.

It is a file system of its own in memory, whose size the kernel limits. The number of files takes memory beside that,
and the zygote watches it.
"""

from __future__ import annotations

import os

MAX_FILES = 10_000


class Scratch:
    """The folder. Only the zygote uses this, while no job runs, or to count."""

    def __init__(self, folder: str) -> None:
        self.folder = os.fsencode(folder)
        self._changed_ns = self._read_change_ns()

    def has_been_used(self) -> bool:
        """Whether anything was made in the folder since it was emptied, though it may be gone again."""
        return self._read_change_ns() != self._changed_ns

    def has_too_many_files(self) -> bool:
        """Whether there are more files than a job may have."""
        facts = os.statvfs(self.folder)
        return facts.f_files - facts.f_ffree > MAX_FILES

    def empty(self) -> None:
        """Remove all content. A job may have nested folders deeper than a path or the stack reaches, so every folder
        below the first level is moved up before its parent goes.
        """
        os.chmod(self.folder, 0o700)
        prefix, number = os.urandom(8).hex().encode(), 0
        while entries := list(os.scandir(self.folder)):
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                os.chmod(entry.path, 0o700)
                for inner in list(os.scandir(entry.path)):
                    if inner.is_dir(follow_symlinks=False):
                        os.chmod(inner.path, 0o700)
                        os.rename(inner.path, b"%s/%s%d" % (self.folder, prefix, number))
                        number += 1
                    else:
                        os.unlink(inner.path)
                os.rmdir(entry.path)
        self._changed_ns = self._read_change_ns()

    def _read_change_ns(self) -> int:
        return os.stat(self.folder).st_mtime_ns
