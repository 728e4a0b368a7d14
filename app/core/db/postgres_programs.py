"""PostgreSQL's own programs pg_dump, pg_restore and psql, of a version that fits the server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Connection, inspect, text
from sqlalchemy.engine import make_url

from app.core.db.database import Database
from app.core.errors import BadInputError, ConflictError, UnavailableError

PROGRAMS = ("pg_dump", "pg_restore", "psql")
FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")
OTHERS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND coalesce(backend_type, 'client backend') = 'client backend'"
)


def dump(database: Database, file: Path, progress: Callable[[int, int], None]) -> None:
    """Writes the database in pg_dump's custom format, as it is at one moment. Raises UnavailableError."""
    with database.connect(read_only=True) as connection:
        n_tables = len(inspect(connection).get_table_names())
    words = ["--format=custom", "--no-owner", "--no-privileges", "--verbose", f"--file={file}"]
    program = _find_folder(database) / "pg_dump"
    with _start(database, program, *words, _format_address(database), stderr=subprocess.PIPE) as process:
        assert process.stderr
        lines = []
        for line in process.stderr:
            lines.append(line)
            if b"dumping contents of table" in line:
                progress(sum(b"dumping contents" in line for line in lines), n_tables)
    if process.returncode:
        raise UnavailableError(f"the database was not saved: {_find_last_error(b''.join(lines))}")


def read_schema(database: Database, file: Path) -> str | None:
    """The schema version in a dump; None if it has none. Raises BadInputError for a damaged dump."""
    words = ["--data-only", "--table=alembic_version", "--file=-", str(file)]
    with _start(database, _find_folder(database) / "pg_restore", *words, stderr=subprocess.PIPE) as process:
        output, errors = process.communicate()
    if process.returncode:
        raise BadInputError(f"{file} cannot be read: {_find_last_error(errors)}", "file")
    found = re.search(rb"^COPY .*alembic_version .*\n(\w+)$", output, re.MULTILINE)
    return found[1].decode() if found else None


def restore(database: Database, file: Path, progress: Callable[[int, int], None]) -> None:
    """Replaces all tables by the dump's in one transaction. Raises ConflictError if others are connected."""
    folder = _find_folder(database)
    with database.connect(read_only=True) as connection:
        if n_others := _count_others(connection):
            raise ConflictError(f"{n_others} other connections use the database: stop web, workers and beat first")
        quote = connection.dialect.identifier_preparer.quote
        old = [quote(table) for table in inspect(connection).get_table_names()]
    database.dispose()
    drop = f"SET lock_timeout = '10s'; DROP TABLE {', '.join(old)} CASCADE;\n" if old else ""
    with (
        tempfile.TemporaryFile() as faults,
        _start(database, folder / "pg_restore", "--list", str(file), stderr=faults) as listing,
        _start(database, folder / "pg_restore", "--no-owner", "--no-privileges", "--file=-", str(file), stderr=faults)
        as script,
        _start(
            database, folder / "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-",
            _format_address(database), stdin=subprocess.PIPE, stderr=faults,
        ) as psql,
    ):  # fmt: skip
        n_tables = listing.communicate()[0].count(b" TABLE DATA ")
        is_sent = _stream_script(
            psql, f"BEGIN;\n{drop}".encode(), script, lambda n_copied: progress(n_copied, n_tables)
        )
        script.wait()
        if is_sent and script.returncode == 0:
            psql.communicate(b"COMMIT;\n")  # a stream that ends before it, for whatever reason, changes nothing
        else:
            psql.communicate()
        faults.seek(0)
        if script.returncode or psql.returncode:
            raise UnavailableError(
                f"nothing was restored, the database is as before: {_find_last_error(faults.read())}"
            )


def _count_others(connection: Connection) -> int:
    """The connections of others, after the moment that PostgreSQL takes to notice that one was closed."""
    for _ in range(20):
        n_others = connection.scalar(OTHERS)
        if not n_others:
            return 0
        time.sleep(0.1)
        connection.rollback()  # a transaction sees the same ones for its whole life
    return int(n_others)


def _stream_script(
    psql: subprocess.Popen[bytes], begin: bytes, script: subprocess.Popen[bytes], report: Callable[[int], None]
) -> bool:
    """Passes the script on, line by line; whether psql took it all."""
    assert psql.stdin
    assert script.stdout
    n_copied = 0
    try:
        psql.stdin.write(begin)
        for line in script.stdout:
            if line.startswith(b"COPY "):
                report(n_copied)
                n_copied += 1
            psql.stdin.write(line)
        psql.stdin.flush()
    except BrokenPipeError:
        script.kill()
        return False
    return True


def _find_folder(database: Database) -> Path:
    """The folder of the programs of the server's version, else of the next newer one. Raises UnavailableError."""
    with database.connect(read_only=True) as connection:
        assert connection.dialect.server_version_info
        server = int(connection.dialect.server_version_info[0])
    program = shutil.which(PROGRAMS[0])
    found = {Path(program).parent} if program else set()
    found |= {folder for pattern in FOLDERS for folder in Path("/").glob(pattern[1:])}
    versions = {
        _read_version(folder): folder for folder in found if all((folder / name).is_file() for name in PROGRAMS)
    }
    fitting = [version for version in versions if version >= server]
    if not fitting:
        there = ", ".join(map(str, sorted(versions))) or "none"
        raise UnavailableError(
            f"PostgreSQL {server} needs pg_dump, pg_restore and psql of version {server} or newer (found: {there}): "
            f"install postgresql-client-{server}"
        )
    return versions[min(fitting)]


def _read_version(folder: Path) -> int:
    said = subprocess.run([folder / "pg_dump", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)(?:\.|devel|beta|rc)", said)
    return int(found[1]) if found else 0


def _start(
    database: Database, program: Path, *words: str, stderr: int | IO[bytes], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """A program in the C locale. It gets the password from its environment: everybody may read its arguments."""
    password = _parse_connection(database).get("password")
    env = {**os.environ, "LC_ALL": "C"} | ({"PGPASSWORD": str(password)} if password else {})
    return subprocess.Popen([program, *words], stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, env=env)


def _format_address(database: Database) -> str:
    words = {name: value for name, value in _parse_connection(database).items() if name != "password"}
    return f"--dbname={make_conninfo(**words)}"


def _parse_connection(database: Database) -> dict[str, Any]:
    url = make_url(database.url).set(drivername="postgresql")
    return dict(conninfo_to_dict(url.render_as_string(hide_password=False)))


def _find_last_error(stderr: bytes) -> str:
    """The programs' own words about a failure: the first line with an error, else the last one."""
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    errors = [line for line in lines if re.search(r"error:|ERROR:|FATAL:", line)]
    return (errors or lines or ["no reason given"])[0 if errors else -1]
