"""A locked database and a full disk: one sentence with a remedy and exit code 1, on the command line and in the log."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from app.core.db.database import log_failure
from app.jobs.database_lock import DatabaseLock, UnavailableError
from app.runs import service
from tests.app.cli.test_main import EVAL
from tests.thorough import thorough

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@pytest.fixture
def locked(ctx, monkeypatch):
    """Another process writes to the database and does not end."""
    monkeypatch.setattr("app.core.db.database.BUSY_MS", 50)
    ctx.database.dispose()
    other = sqlite3.connect(ctx.database.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.close()


def assert_sentence(result, sentence: str) -> None:
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("words", [EVAL, ("datasets", "import"), ("tokens", "create", "mine"), ("runs", "cancel")])
def test_a_locked_database_is_one_sentence(bassline, additions, spec, ctx, request, words, tmp_path):
    words = list(words)
    if words[:2] == ["datasets", "import"]:
        file = tmp_path / "more.jsonl"
        file.write_text((tmp_path / "additions.jsonl").read_text().splitlines()[0])
        words += [file, "--no-check"]
    if words[0] == "runs":
        run_id = service.submit(ctx, spec())
        words.append(run_id)
    request.getfixturevalue("locked")
    assert_sentence(bassline(*words), "another process has been writing to the database for too long")


def test_a_database_without_room_is_one_sentence(bassline, additions, ctx, monkeypatch):
    # A worker keeps its samples for as long as its lease and tries again.
    ctx.settings = ctx.settings.model_copy(update={"lease_s": 5.0, "heartbeat_s": 1.0})
    ctx.database.dispose()
    with contextlib.closing(sqlite3.connect(ctx.database.file, isolation_level=None)) as direct:
        # Small pages without free ones: on pages of 4 kB a whole run can fit into what the last rows left.
        direct.execute("PRAGMA journal_mode=DELETE")
        direct.execute("PRAGMA page_size=512")
        direct.execute("VACUUM")
        assert direct.execute("PRAGMA page_size").fetchone() == (512,)
        (pages,) = direct.execute("PRAGMA page_count").fetchone()
    configure = ctx.database.__class__.__module__
    original = sys.modules[configure]._configure_sqlite

    def limit(connection, record) -> None:
        original(connection, record)
        connection.execute(f"PRAGMA max_page_count={pages}")

    monkeypatch.setattr(f"{configure}._configure_sqlite", limit)
    assert_sentence(bassline(*EVAL, "--n", "8"), "free some space and try again")


@needs_full
@pytest.mark.parametrize("words", [("models", "list"), thorough(("models", "list", "--json", "-"))])
def test_output_to_a_full_disk_is_one_sentence(tmp_path, words):
    command = [sys.executable, "-m", "app.cli", *words]
    with FULL.open("w") as full:
        ended = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "BASSLINE_DATA_DIR": str(tmp_path)},
        )
    assert (ended.returncode, ended.stderr.strip()) == (
        1,
        "Error: the disk has no room left (No space left on device): free some space and try again",
    )


def test_a_lock_file_that_cannot_be_written_is_one_sentence(ctx, monkeypatch):
    def fail(*_) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    lock = DatabaseLock(ctx.database.file, "test")
    with monkeypatch.context() as patched:
        patched.setattr("app.jobs.database_lock.os.write", fail)
        with pytest.raises(UnavailableError, match=r"lock file .* cannot be written \(No space left on device\): free"):
            lock.acquire()
    lock.acquire()  # the failed try holds no lock
    lock.release()


@pytest.mark.usefixtures("locked")
def test_a_worker_thread_logs_a_locked_database_in_one_line(ctx):
    with pytest.raises(OperationalError) as raised, ctx.database.session() as session:
        session.connection()
    with capture_logs() as logs:
        log_failure("message failed", raised.value)
    (line,) = logs
    assert "another process has been writing" in line["error"]
    assert "exc_info" not in line
