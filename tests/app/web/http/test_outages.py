"""A database that cannot be read or written: every API says so in its own form, with a time to come again."""

from __future__ import annotations

import shutil
from collections import namedtuple

import pytest
from sqlalchemy import event, text

from app.monitoring import health
from app.site.factory import create_app
from app.workers import service as workers

LONG = "x" * 150_000  # more than the pages that a database has left
ASKED = {
    "/api/v1/complete": {"target": "smollm2-135m", "prompt": LONG},
    "/v1/completions": {"model": "smollm2-135m", "prompt": LONG},
    "/v1/chat/completions": {"model": "smollm2-135m", "messages": [{"role": "user", "content": LONG}]},
}


@pytest.fixture
def client(ctx):
    return create_app(ctx).test_client()


@pytest.fixture
def full(ctx):
    """The database's file may not grow any more."""
    with ctx.database.session() as session:
        pages = session.execute(text("PRAGMA page_count")).scalar_one()

    @event.listens_for(ctx.database.engine, "checkout")
    def _limit(connection, *_):
        connection.execute(f"PRAGMA max_page_count={pages}")


def said(answer) -> str:
    return answer.json.get("detail") or answer.json["error"]["message"]


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("path", ASKED)
def test_a_full_disk_is_a_503_with_a_time_to_come_again(client, path):
    answer = client.post(path, json=ASKED[path])
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert said(answer) == "the database is unavailable: try again in a moment"


@pytest.mark.parametrize("path", ASKED)
def test_a_database_that_is_away_is_a_503_too(client, ctx, path):
    ctx.database.dispose()
    ctx.database.file.rename(ctx.database.file.with_suffix(".away"))
    answer = client.post(path, json=ASKED[path])
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")


def database_check(client) -> tuple[int, str]:
    answer = client.get("/api/v1/health/ready")
    return answer.status_code, answer.json["checks"]["database"]


def test_readiness_writes_nothing_and_is_checked_once_however_often_it_is_asked(client, ctx):
    workers.report(ctx)
    statements: list[str] = []
    event.listen(
        ctx.database.engine, "before_cursor_execute", lambda _c, _cur, statement, *_: statements.append(statement)
    )
    assert database_check(client) == (200, "ok")
    once = len(statements)
    assert once
    assert all(statement.startswith(("SELECT", "PRAGMA", "BEGIN DEFERRED")) for statement in statements), statements
    assert [database_check(client) for _ in range(50)] == [(200, "ok")] * 50
    assert len(statements) == once


def test_a_readiness_that_is_old_is_checked_again(client, ctx, monkeypatch):
    monkeypatch.setattr(health, "REUSE_S", 0.0)
    assert "none has reported itself" in client.get("/api/v1/health/ready").json["checks"]["workers"]
    workers.report(ctx)
    assert database_check(client) == (200, "ok")


def test_a_disk_without_room_is_not_ready(client, ctx, monkeypatch):
    workers.report(ctx)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(100, 100, health.LEAST_BYTES - 1))
    status, found = database_check(client)
    assert status == 503
    assert found == "its disk has 50 MB left and needs 50: free some space"
