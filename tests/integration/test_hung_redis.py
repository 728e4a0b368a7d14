"""A Redis that takes connections and answers nothing: requests get an answer, and none waits for another."""

from __future__ import annotations

import shutil
import signal
import threading
import uuid
from collections.abc import Callable
from contextlib import contextmanager

import pytest
from sqlalchemy import select

from app.completions import service as completions
from app.core.broker import queues
from app.core.broker.celery_app import CeleryBroker
from app.core.context import make_context
from app.core.events.bus import BEFORE_FIRST, RedisBus
from app.core.settings import Settings
from app.core.states import RunState
from app.runs.models import Run
from app.site.factory import create_app
from tests.integration.servers import Redis
from tests.integration.waiting import wait_for

pytestmark = pytest.mark.slow

SOON_S = 60  # generous: before, each answer took minutes
PROMPT = {"target": "smollm2-135m", "prompt": "def f():\n", "n": 1, "budget_s": 2}


@pytest.fixture(scope="module")
def redis_server():
    server = Redis()
    yield server
    server.remove()


@pytest.fixture
def ctx(redis_server, migrated, tmp_path):
    shutil.copy(migrated, tmp_path / "bassline.db")
    made = make_context(
        Settings(_env_file=None, data_dir=tmp_path, broker_url=redis_server.url, secret_key="test", allowed_models="*")
    )
    yield made
    made.database.dispose()


@contextmanager
def hung(server: Redis):
    """Redis is stopped, and goes on afterwards."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def run_together(*actions: Callable[[], object]) -> list[object]:
    """The results of the actions, each in a thread of its own; all must end soon."""
    results: list[object] = [None] * len(actions)

    def act(place: int, action: Callable[[], object]) -> None:
        results[place] = action()

    threads = [threading.Thread(target=act, args=place, daemon=True) for place in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_S)
    assert not any(thread.is_alive() for thread in threads), results
    return results


def test_completions_are_refused_at_once_and_lists_are_served(ctx, redis_server):
    app = create_app(ctx)
    app.test_client().get("/api/v1/runs")  # the limiter has connected

    def complete():
        return app.test_client().post("/api/v1/complete", json=PROMPT)

    def complete_openai():
        body = {"model": "smollm2-135m", "prompt": "x"}
        return app.test_client().post("/v1/completions", json=body)

    def list_runs():
        return app.test_client().get("/api/v1/runs")

    with hung(redis_server):
        answers = run_together(*[complete] * 3, *[complete_openai] * 3, *[list_runs] * 10)
        again = run_together(complete, list_runs)
    assert [answer.status_code for answer in answers] == [503] * 6 + [200] * 10
    assert [answer.status_code for answer in again] == [503, 200]
    assert "the broker cannot be reached" in answers[0].json["detail"]
    assert answers[0].headers["Retry-After"]
    with ctx.database.read() as session:
        assert session.scalars(select(Run)).all() == []


def test_a_completion_whose_redis_hangs_ends_with_its_budget(ctx, redis_server):
    app = create_app(ctx)
    wait_for(lambda: ctx.broker.find_fault() is None)
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(app.test_client().post("/api/v1/complete", json=PROMPT)), daemon=True
    )
    thread.start()
    wait_for(lambda: ctx.broker.count_messages(queues.GPU_INTERACTIVE))
    with hung(redis_server):
        thread.join(SOON_S)
        assert not thread.is_alive()
    (answer,) = answers
    assert answer.status_code == 200
    assert answer.json["run"]["state"] in (RunState.FINISHED, RunState.FAILED, RunState.CANCELLED)


def test_a_lock_is_not_held_while_a_message_is_sent(ctx, monkeypatch):
    held = []
    monkeypatch.setattr(CeleryBroker, "send", lambda *_: held.append(ctx.admission_lock.locked()))
    wait_for(lambda: ctx.broker.find_fault() is None)
    completions.submit(ctx, completions.CompletionSpec(**PROMPT))
    completions.submit(ctx, completions.CompletionSpec(**PROMPT, test="assert f() is None"))
    assert held == [False, False]


def test_a_run_is_stored_and_readiness_names_the_broker(ctx, redis_server):
    client = create_app(ctx).test_client()
    with hung(redis_server):
        (ready,) = run_together(lambda: client.get("/api/v1/health/ready"))
        body = {"target": "smollm2-135m", "dataset": "humaneval", "limit": 1, "n": 1, "budget_s": 2}
        (stored,) = run_together(lambda: client.post("/api/v1/runs", json=body))
    assert ready.json["checks"]["broker"].startswith("cannot be reached")
    assert stored.status_code == 201


def test_events_are_read_again_once_redis_answers(redis_server):
    bus, run_id = RedisBus(redis_server.url), uuid.uuid4()
    bus.publish(run_id, "sample", {"index": 0})
    with hung(redis_server):
        assert run_together(lambda: bus.read(run_id, BEFORE_FIRST, 5), lambda: bus.read(run_id, BEFORE_FIRST, 0.1)) == [
            [],
            [],
        ]
    wait_for(lambda: bus.read(run_id, BEFORE_FIRST, 0))
