"""Migrations: linear, up and down on both databases, models equal to the schema, every constraint named."""

from __future__ import annotations

import threading

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from app import migrate, tables
from app.db import Database


def test_up_down_up_and_equal_to_the_models(database_url):
    database = Database(database_url)
    migrate.upgrade(database)
    assert migrate.current(database) == migrate.head()
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []
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


def test_revisions_are_numbered_and_linear():
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    revisions = list(reversed(list(ScriptDirectory.from_config(config).walk_revisions())))
    assert [r.revision for r in revisions] == [f"{i:04d}" for i in range(1, len(revisions) + 1)]


def test_every_constraint_has_a_name():
    for table in tables.metadata.tables.values():
        for constraint in table.constraints:
            assert constraint.name, f"{table.name}: {constraint}"
