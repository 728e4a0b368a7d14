"""PostgreSQL of this machine: where its programs are, and a cluster of one's own for as long as a benchmark runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class NotInstalled(RuntimeError):  # noqa: N818 (reads as what is wrong)
    """There is no PostgreSQL on this machine."""


def programs() -> Path | None:
    """The folder of initdb, postgres and pg_ctl of the newest version; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: float(file.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def of_the_server() -> dict[str, Any]:
    """Arguments for subprocess: PostgreSQL refuses to run as root, so there it runs as `postgres`."""
    return {"user": "postgres"} if os.getuid() == 0 else {}


@contextmanager
def private_cluster() -> Iterator[str]:
    """The URL of an empty database in a cluster with the server's own settings, which is removed afterwards.

    Raises NotInstalled.
    """
    where = programs()
    if where is None:
        raise NotInstalled(
            "PostgreSQL is not installed (initdb not found): install it, or name an empty database with --database"
        )
    folder = Path(tempfile.mkdtemp(prefix="bassline-bench-"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    data = folder / "data"

    def run(*command: object) -> None:
        subprocess.run([str(word) for word in command], check=True, capture_output=True, cwd=folder, **of_the_server())

    try:
        run(where / "initdb", "-D", data, "-U", "bassline", "-A", "trust", "-E", "UTF8", "--no-locale")
        options = f"-k {folder} -c listen_addresses= -c max_wal_size=8GB"
        run(where / "pg_ctl", "start", "-w", "-D", data, "-l", folder / "log", "-o", options)
        try:
            yield f"postgresql+psycopg://bassline@/postgres?host={folder}"
        finally:
            run(where / "pg_ctl", "stop", "-w", "-m", "immediate", "-D", data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
