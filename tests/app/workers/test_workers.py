"""What a worker process reports of itself."""

from __future__ import annotations

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


def test_a_list_of_models_ends_where_its_column_does(ctx, engine):
    for i in range(9):
        ctx.engines.get(EngineConfig(target=f"./{i}{'x' * 200}"), lambda: engine)
    assert len(reported(ctx)) == MODEL_LENGTH
