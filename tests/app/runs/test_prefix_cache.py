"""A run uses the prefix cache only if it asks for it, and then says what came from it."""

from __future__ import annotations

import pytest

from app.core.errors import BadInputError
from app.jobs.embedded import EmbeddedWorkers
from app.runs import service
from app.runs.repository import load_tasks_with_samples
from app.runs.schemas import RunSpec
from app.site.factory import create_app
from app.web.http.schemas import parse_spec
from tests.app.pages.test_pages import text_of
from tests.app.test_embedded import ended
from tests.integration.waiting import wait_for


@pytest.mark.parametrize(("asked", "cached"), [(False, 0), (True, 5)])
def test_the_cached_tokens_of_each_task_are_stored_and_shown(ctx, spec, engine, asked, cached):
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec(prefix_cache=asked))
        wait_for(ended(ctx, run_id))
    assert {request.prefix_cache for request in engine.requests} == {asked}
    assert not any(request.earlier_answers for request in engine.requests), "tasks of a run never help each other draft"
    with ctx.database.read() as session:
        tasks = load_tasks_with_samples(session, run_id)
    assert {task.cached_tokens for task in tasks if task.wall_s} == {cached}
    timing = text_of(create_app(ctx).test_client().get(f"/runs/{run_id}?tab=timing"))
    assert ("From the prefix cache" in timing) == asked
    assert ("Cached tokens" in timing) == asked


def test_a_remote_target_is_not_told_how_to_cache():
    with pytest.raises(BadInputError, match="prefix_cache is True: a remote target caches as it likes, leave it out"):
        parse_spec(RunSpec, {"target": "openai:m@http://localhost:1/v1", "prefix_cache": True})
