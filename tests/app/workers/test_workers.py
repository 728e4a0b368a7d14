"""What a worker process reports of itself."""

from __future__ import annotations

import dataclasses
import datetime as dt

from app.core.broker import queues
from app.workers import service
from app.workers.models import MODEL_LENGTH, Worker
from decoding.config import EngineConfig


def reported(ctx) -> str | None:
    service.report(ctx)
    with ctx.database.read() as session:
        return session.get_one(Worker, ctx.worker_name).model


def test_a_worker_reports_each_model_it_holds_once_and_the_last_used_first(ctx, engine):
    assert reported(ctx) is None
    for target, drafter in (("smollm2-135m", "none"), ("qwen2.5-coder-0.5b", "none"), ("smollm2-135m", "sibling")):
        ctx.engines.get(EngineConfig(target=target, drafter=drafter), lambda: engine)
    assert reported(ctx) == "smollm2-135m, qwen2.5-coder-0.5b"
    ctx.engines.drop()
    assert reported(ctx) is None


def test_a_worker_that_was_asked_to_stop_is_not_counted_as_crashed(ctx):
    service.register(ctx, "gpu0@a", list(queues.GPU))
    service.report_stop(ctx, "gpu0@a")
    again = dataclasses.replace(ctx, worker_name="a:2")
    service.register(again, "gpu0@a", list(queues.GPU))
    with ctx.database.read() as session:
        assert session.get_one(Worker, ctx.worker_name).stopped_at is not None
        assert session.get_one(Worker, "a:2").stopped_at is None
        assert session.get_one(Worker, "a:2").crashes == 0


def test_a_list_of_models_ends_where_its_column_does(ctx, engine):
    for i in range(9):
        ctx.engines.get(EngineConfig(target=f"./{i}{'x' * 200}"), lambda: engine)
    assert len(reported(ctx)) == MODEL_LENGTH


def test_a_worker_is_alive_by_the_clock_of_the_database(ctx, monkeypatch):
    """The clock of a web process may be ahead."""
    service.report(ctx)
    monkeypatch.setattr(service, "get_utc_time", lambda: dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    with ctx.database.read() as session:
        assert [worker.name for worker in service.find_alive_workers(session)] == [ctx.worker_name]
