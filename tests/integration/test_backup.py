"""`bassline db backup` and `restore`: whole or not at all, and nothing deleted unasked."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest
from click.testing import CliRunner
from sqlalchemy import text

from app.cli.main import cli
from app.core.db import migrate
from app.core.db.database import Database
from app.jobs.database_lock import SERVE, DatabaseLock

pytestmark = pytest.mark.slow
ADD = "INSERT INTO users (id, name, scope, password_hash, created_at) VALUES (:id, :name, 'read', 'x', :now)"
NOW = "2026-11-27 07:00:00"


@pytest.fixture
def database(migrated, tmp_path):
    database = Database(f"sqlite:///{shutil.copy(migrated, tmp_path / 'bassline.db')}")
    yield database
    database.dispose()


@pytest.fixture
def bassline(database, monkeypatch):
    """Runs a command over the database, to which this process then has no connection."""
    monkeypatch.setenv("BASSLINE_DATABASE_URL", database.url)

    def run(*words: object):
        database.dispose()
        return CliRunner().invoke(cli, [str(word) for word in words])

    return run


def add_user(database: Database, name: str, number: int) -> None:
    with database.session() as session:
        session.execute(text(ADD), {"id": f"{number:032x}", "name": name, "now": NOW})


def names(database: Database) -> list[str]:
    with database.read() as session:
        return list(session.scalars(text("SELECT name FROM users ORDER BY name")))


def set_schema(database: Database, version: str) -> None:
    with database.session() as session:
        session.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})


def test_a_backup_brings_back_what_was_there(database, bassline, tmp_path):
    add_user(database, "ada", 1)
    file = tmp_path / "saved"
    saved = bassline("db", "backup", file)
    assert saved.exit_code == 0, saved.output
    assert f"saved the database to {file}" in saved.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    add_user(database, "eve", 2)
    refused = bassline("db", "restore", file)
    assert refused.exit_code == 1
    assert "give --replace to delete all of it" in refused.output
    assert names(database) == ["ada", "eve"]
    restored = bassline("db", "restore", file, "--replace")
    assert restored.exit_code == 0, restored.output
    assert f"(schema {migrate.get_newest_revision()})" in restored.output
    assert names(database) == ["ada"]
    migrate.ensure_newest_schema(database)
    add_user(database, "bob", 3)


def test_an_older_backup_replaces_a_newer_schema_and_can_be_upgraded(database, bassline, tmp_path):
    migrate.downgrade(database, "0033")
    assert bassline("db", "backup", tmp_path / "old").exit_code == 0
    migrate.upgrade(database)
    restored = bassline("db", "restore", tmp_path / "old", "--replace")
    assert "(schema 0033)" in restored.output
    assert "run `bassline db upgrade` next" in restored.output
    assert migrate.get_current_revision(database) == "0033"
    migrate.upgrade(database)
    assert migrate.get_current_revision(database) == migrate.get_newest_revision()


def test_a_backup_with_a_schema_that_this_version_cannot_read_is_refused(database, bassline, tmp_path):
    set_schema(database, "9999")
    assert bassline("db", "backup", tmp_path / "saved").exit_code == 0
    set_schema(database, migrate.get_newest_revision())
    add_user(database, "ada", 1)
    refused = bassline("db", "restore", tmp_path / "saved", "--replace")
    assert refused.exit_code == 2
    assert "has schema 9999, which this version does not know" in refused.output
    assert names(database) == ["ada"]


def test_a_backup_never_replaces_a_file_and_a_damaged_one_replaces_no_database(database, bassline, tmp_path):
    add_user(database, "ada", 1)
    file = tmp_path / "saved"
    assert bassline("db", "backup", file).exit_code == 0
    again = bassline("db", "backup", file)
    assert again.exit_code == 2
    assert "exists already" in again.output
    whole = file.read_bytes()
    for content, sentence in (
        (whole[: len(whole) // 2], "is not a whole backup"),
        (b"something else", "is not a whole backup"),
        (b"", "is not a whole backup"),
    ):
        file.write_bytes(content)
        refused = bassline("db", "restore", file, "--replace")
        assert refused.exit_code != 0
        assert sentence in refused.output
        assert "Traceback" not in refused.output
        assert names(database) == ["ada"]
    assert bassline("db", "restore", tmp_path / "none").exit_code == 2
    assert bassline("db", "backup", tmp_path / "no folder" / "saved").exit_code == 2


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, getattr(signal, sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
from app.cli.main import main
del sys.argv[1:3]
main()
"""


@pytest.mark.parametrize(("action", "code"), [("SIG_IGN", 1), ("SIG_DFL", -signal.SIGXFSZ)], ids=["fails", "is killed"])
def test_a_restore_that_ends_in_the_middle_leaves_the_database_as_it_was(database, bassline, tmp_path, action, code):
    file = tmp_path / "saved"
    with database.session() as session:
        session.execute(
            text(ADD), [{"id": f"{i:032x}", "name": f"{i:06}" + "x" * 150, "now": NOW} for i in range(9000)]
        )
    assert bassline("db", "backup", file).exit_code == 0
    add_user(database, "eve", 999_999)
    before = names(database)
    database.dispose()
    words = (sys.executable, "-c", LIMITED, action, str(file.stat().st_size // 2), "db", "restore", file, "--replace")
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert names(database) == before


def test_a_database_that_is_in_use_is_not_replaced(database, bassline, tmp_path):
    add_user(database, "ada", 1)
    assert bassline("db", "backup", tmp_path / "saved").exit_code == 0
    lock = DatabaseLock(database.file, SERVE)
    lock.acquire()
    other = Database(database.url)
    with other.connect() as connection:
        connection.execute(text("SELECT 1"))
        refused = bassline("db", "restore", tmp_path / "saved", "--replace")
    lock.release()
    other.dispose()
    assert refused.exit_code == 1
    assert "in use by bassline serve" in refused.output
    assert names(database) == ["ada"]


def test_a_backup_of_no_database_makes_none(bassline, tmp_path, monkeypatch):
    monkeypatch.setenv("BASSLINE_DATABASE_URL", f"sqlite:///{tmp_path / 'mistyped.db'}")
    refused = bassline("db", "backup", tmp_path / "saved")
    assert refused.exit_code == 1
    assert "there is no database" in refused.output
    assert not (tmp_path / "mistyped.db").exists()
    assert not (tmp_path / "saved").exists()


def test_a_file_of_another_program_is_refused(bassline, tmp_path):
    sqlite3.connect(tmp_path / "empty").execute("CREATE TABLE t (x)").connection.close()
    assert "no such table: alembic_version" in bassline("db", "restore", tmp_path / "empty").output


def test_postgresql_is_left_to_its_own_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("BASSLINE_DATABASE_URL", "postgresql+psycopg://bassline@localhost:1/none")
    for command in ("backup", "restore"):
        refused = CliRunner().invoke(cli, ["db", command, str(tmp_path / "saved")])
        assert refused.exit_code == 1
        assert "use pg_dump and pg_restore for PostgreSQL" in refused.output
