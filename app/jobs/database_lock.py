"""SQLite has one owner: a lock file beside the database keeps other processes from its jobs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from app.core.db.database import make_folder
from app.core.errors import UnavailableError

SERVE = "serve"


class InUseError(UnavailableError):
    """Another process owns the database; `by_server` says whether it works every run (`bassline serve`)."""

    def __init__(self, message: str, *, by_server: bool) -> None:
        super().__init__(message)
        self.by_server = by_server


class DatabaseLock:
    """The right to work the jobs of a SQLite database, held for the life of a process. PostgreSQL needs none."""

    def __init__(self, database_file: Path | None, purpose: str) -> None:
        self._database = database_file
        self._path = database_file.with_suffix(".lock") if database_file else None
        self._purpose = purpose
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Takes the lock. Raises InUseError naming the process that has it."""
        if self._path is None:
            return
        make_folder(self._path.parent)
        try:
            file = self._path.open("a+")
        except OSError as error:
            raise self._build_refusal(error) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            owner = self.owner()
            raise InUseError(
                f"{self._database} is in use by {owner or 'another process'}: stop that first, or set "
                "BASSLINE_DATABASE_URL to another database",
                by_server=owner.startswith(f"bassline {SERVE} "),
            ) from None
        try:
            os.ftruncate(file.fileno(), 0)
            # Past the buffer, which would be written once more when the file is closed.
            os.write(file.fileno(), f"bassline {self._purpose} (process {os.getpid()})".encode())
        except OSError as error:
            file.close()
            raise self._build_refusal(error) from None
        self._file = file

    def _build_refusal(self, error: OSError) -> UnavailableError:
        return UnavailableError(
            f"the lock file {self._path} cannot be written ({error.strerror}): free some space or allow writing there, "
            "or set BASSLINE_DATABASE_URL to another database"
        )

    def owner(self) -> str:
        """Who took the lock last, as text; empty once they released it."""
        return self._path.read_text().strip() if self._path and self._path.exists() else ""

    def release(self) -> None:
        """Gives the lock back."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None
