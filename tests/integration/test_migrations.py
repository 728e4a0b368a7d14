"""Migrations: linear, up and down on both databases, models equal to the schema, every constraint named."""

from __future__ import annotations

import datetime as dt
import re
import threading
import uuid
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, MetaData, Table, insert, inspect, select

from app import domains
from app.core.db import migrate
from app.core.db.database import Database
from app.core.errors import UnavailableError

pytestmark = pytest.mark.slow

RENAMED = {"attempt_token": "fence", "worker": "claimed_by"}  # of run_tasks
NOW = dt.datetime(2026, 11, 26, tzinfo=dt.UTC)
FIRST = "0033"


def test_up_down_up_and_equal_to_the_models(database_url):
    database = Database(database_url)
    migrate.upgrade(database)
    assert migrate.get_current_revision(database) == migrate.get_newest_revision()
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, domains.metadata) == []
    migrate.downgrade(database, "base")
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    migrate.upgrade(database)
    database.dispose()


def test_two_processes_may_upgrade_at_once(database_url):
    faults: list[Exception] = []

    def upgrade():
        database = Database(database_url)
        try:
            migrate.upgrade(database)
        except Exception as error:
            faults.append(error)
        finally:
            database.dispose()

    threads = [threading.Thread(target=upgrade) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_the_database_of_another_version_is_refused_with_a_sentence(migrated_url):
    database = Database(migrated_url)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    try:
        for bring_up in (migrate.ensure_newest_schema, migrate.upgrade):
            with pytest.raises(UnavailableError, match="another version of Bassline made this database"):
                bring_up(database)
    finally:
        with database.engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{migrate.get_newest_revision()}'")
        database.dispose()


def test_an_upgrade_keeps_every_row_of_every_table(database_url):
    database = Database(database_url)
    migrate.upgrade(database, FIRST)
    with database.engine.begin() as connection:
        before = fill_every_table(connection)
    assert len(before) >= 20
    migrate.upgrade(database)
    assert migrate.get_current_revision(database) == migrate.get_newest_revision()
    check = before.pop("dataset_check_jobs")
    assert before.pop("load_tests")  # nothing has read or written them since 0033
    assert before.pop("task_words")  # the index of a search that reads the samples now
    assert before.pop("idempotency_keys")  # answers of a day
    assert before["runs"].pop("compare_plain")
    for table, tags in (("runs", "run_tags"), ("studies", "study_tags")):
        assert before[table].pop("starred")
        before[table]["note"] += f"\nTags: {before.pop(tags)['tag']}, starred"
    with database.engine.connect() as connection:
        tables = reflect(connection)
        for name, row in before.items():
            (kept,) = connection.execute(select(tables[name])).mappings()
            assert {rename(name, column) for column in row} <= set(kept)
            assert {column: kept[rename(name, column)] for column in row} == row, name
        (job,) = connection.execute(select(tables["jobs"])).mappings()
        assert (job["id"], job["kind"], job["state"]) == (check["id"], "check_dataset", "queued")
        assert job["key"] == f"{uuid.UUID(str(check['dataset_id']))} {check['sandbox']}"
        assert connection.scalar(select(tables["runs"].c.policy)) == "arm"  # the run that the filled study has
    database.dispose()


def rename(table: str, column: str) -> str:
    """The present name of a column of schema 0033."""
    return RENAMED.get(column, column) if table == "run_tasks" else column


def fill_every_table(connection: Connection) -> dict[str, dict[str, Any]]:
    """Inserts a row into each table; equal values of a type satisfy every reference. Returns the rows as stored."""
    found = {}
    for table in reflect(connection).values():
        checks = [check["sqltext"] for check in inspect(connection).get_check_constraints(table.name)]
        values = {column.name: make_value(column, checks) for column in table.columns}
        if table.name == "tasks":
            values["completion_id"] = None  # a task belongs to a dataset or to a completion
        connection.execute(insert(table), values)
        found[table.name] = dict(connection.execute(select(table)).mappings().one())
    return found


def reflect(connection: Connection) -> dict[str, Table]:
    """The tables of the service as the database has them, referred ones first."""
    metadata = MetaData()
    metadata.reflect(connection, only=lambda name, _: not name.startswith("task_words_index"))
    return {table.name: table for table in metadata.sorted_tables if table.name != "alembic_version"}


def make_value(column: Column[Any], checks: list[str]) -> Any:
    """The value of a column: one that its CHECK allows, else the same for all columns of the type."""
    allowed = (re.search(rf"\b{column.name}\b[^']*'([^']+)'", check) for check in checks)
    if word := next((match[1] for match in allowed if match), None):
        return word
    kind = str(column.type).partition("(")[0]
    by_kind = {
        "CHAR": "0" * 31 + "1", "UUID": uuid.UUID(int=1), "JSON": {}, "JSONB": {}, "TSVECTOR": "'word'", "BLOB": b"x",
        "BYTEA": b"x", "BOOLEAN": True, "DATETIME": NOW.replace(tzinfo=None), "TIMESTAMP": NOW,
    }  # fmt: skip
    number = kind in ("INTEGER", "BIGINT", "DOUBLE", "DOUBLE PRECISION", "DOUBLE_PRECISION", "FLOAT")
    return by_kind.get(kind, 1 if number else "x")


def test_a_database_that_refuses_a_change_is_named_in_one_sentence(database_url):
    database = Database(database_url)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE archives (made_by TEXT)")
    with pytest.raises(UnavailableError, match=r"stays at schema none, because it refuses .*archives"):
        migrate.upgrade(database)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE archives")
    migrate.upgrade(database)
    assert migrate.get_current_revision(database) == migrate.get_newest_revision()
    database.dispose()


def test_revisions_are_numbered_and_linear():
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    revisions = list(reversed(list(ScriptDirectory.from_config(config).walk_revisions())))
    assert [r.revision for r in revisions] == [f"{int(FIRST) + i:04d}" for i in range(len(revisions))]


def test_every_constraint_has_a_name():
    for table in domains.metadata.tables.values():
        for constraint in table.constraints:
            assert constraint.name, f"{table.name}: {constraint}"
