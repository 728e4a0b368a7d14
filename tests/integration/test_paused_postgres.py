"""A PostgreSQL that is paused: readiness says so, and reads again once the server goes on."""

from __future__ import annotations

import os
import signal
import threading

import psutil
import pytest
from sqlalchemy import text

from app.core.context import make_context
from app.core.db import migrate
from app.core.settings import Settings
from app.site.factory import create_app
from app.workers import service as workers
from tests.integration.servers import Postgres
from tests.integration.waiting import wait_for

pytestmark = pytest.mark.slow

SOON_S = 60  # generous: before, there was no answer until the server went on


@pytest.fixture
def server():
    found = Postgres()
    yield found
    found.remove()


@pytest.fixture
def ctx(server, tmp_path):
    made = make_context(Settings(_env_file=None, data_dir=tmp_path, database_url=server.url))
    migrate.upgrade(made.database)
    yield made
    made.database.dispose()


def signal_all(server, number: int) -> None:
    """To the server's process and its children."""
    process = psutil.Process(server.process.pid)
    for each in [process, *process.children(recursive=True)]:
        os.kill(each.pid, number)


def test_readiness_answers_while_the_database_is_paused(ctx, server):
    client = create_app(ctx).test_client()
    workers.report(ctx)
    assert client.get("/api/v1/health/ready").json["status"] == "ready"
    signal_all(server, signal.SIGSTOP)
    try:
        answers: list = []

        def ask() -> None:
            wait_for(lambda: client.get("/api/v1/health/ready").status_code == 503)
            answers.append(client.get("/api/v1/health/ready").json["checks"]["database"])

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON_S)
        assert answers == ["does not answer within 3 seconds"] * 3
        assert client.get("/api/v1/health/live").status_code == 200
    finally:
        signal_all(server, signal.SIGCONT)
    wait_for(lambda: workers.report(ctx) or client.get("/api/v1/health/ready").status_code == 200, 60)


def test_readiness_writes_nothing_to_the_log_of_the_database(ctx):
    client = create_app(ctx).test_client()
    workers.report(ctx)
    client.get("/api/v1/health/ready")

    def read_position() -> int:
        with ctx.database.read() as session:
            return int(session.execute(text("SELECT pg_current_wal_insert_lsn() - '0/0'")).scalar_one())

    before = read_position()
    for _ in range(500):
        assert client.get("/api/v1/health/ready").status_code == 200
    assert read_position() - before < 500 * 64  # others write now and then; each request wrote 72 KB


def test_readiness_names_a_database_that_cannot_be_written(ctx):
    workers.report(ctx)
    with ctx.database.session() as session:
        session.execute(text("ALTER DATABASE postgres SET default_transaction_read_only = on"))
    ctx.database.dispose()
    found = create_app(ctx).test_client().get("/api/v1/health/ready")
    assert found.status_code == 503
    assert found.json["checks"]["database"].startswith("is read-only")
