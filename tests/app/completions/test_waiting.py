"""Waiting for a completion: what has ended is left alone."""

from __future__ import annotations

import contextlib
import threading

import pytest
from sqlalchemy import event

from app.completions import service, waiting
from app.completions.schemas import CompletionSpec
from app.core.states import OPEN_RUN_STATES, RunState
from app.jobs.embedded import EmbeddedWorkers
from app.runs.repository import get_run
from app.site.factory import create_app
from tests.integration.waiting import wait_for

SPEC = CompletionSpec(target="smollm2-135m", prompt="def add(a, b):\n")


@contextlib.contextmanager
def write_transactions(ctx):
    """Those that this thread begins inside."""
    found, here = [], threading.get_ident()

    def note(connection, cursor, statement, *_):
        if statement == "BEGIN IMMEDIATE" and threading.get_ident() == here:
            found.append(statement)

    event.listen(ctx.database.engine, "before_cursor_execute", note)
    yield found
    event.remove(ctx.database.engine, "before_cursor_execute", note)


def state(ctx, run_id) -> RunState:
    with ctx.database.read() as session:
        return get_run(session, run_id).state


@pytest.fixture
def ended(ctx):
    """A completion that has ended."""
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, SPEC)
        wait_for(lambda: state(ctx, run_id) not in OPEN_RUN_STATES)
    return run_id


def test_the_answer_to_an_ended_completion_writes_nothing(ctx, ended):
    with write_transactions(ctx) as written:
        events = list(waiting.follow_completion(ctx, ended, lambda: False))
        waiting.cancel(ctx, ended)  # as a stream does that is closed
    assert events[-1].data["state"] is RunState.FINISHED
    assert written == []
    assert state(ctx, ended) is RunState.FINISHED


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/v1/completions", {"model": SPEC.target}, {}),
        ("/v1/completions", {"model": SPEC.target, "stream": True}, {}),
        ("/api/v1/complete", {"target": SPEC.target}, {}),
        ("/api/v1/complete", {"target": SPEC.target}, {"Accept": "text/event-stream"}),
    ],
)
def test_an_answer_writes_no_more_than_its_submission(ctx, path, body, headers):
    client = create_app(ctx).test_client()
    with EmbeddedWorkers(ctx, "test"):
        with write_transactions(ctx) as of_submission:
            run_id = service.submit(ctx, SPEC)
        wait_for(lambda: state(ctx, run_id) not in OPEN_RUN_STATES)
        assert of_submission

        def answer_writes_no_more(attempt: int) -> bool:
            with write_transactions(ctx) as of_answer:
                asked = {"prompt": f"{SPEC.prompt}    # another {attempt}\n", **body}
                answer = client.post(path, json=asked, headers=headers, buffered=True)
            assert answer.status_code == 200
            answer.close()
            return len(of_answer) == len(of_submission)

        # On a busy machine an answer may also take a job back from a worker that is late, or end it with its budget:
        # both write. An answer that always writes more fails every time.
        assert any(answer_writes_no_more(attempt) for attempt in range(5))


def test_an_open_one_is_cancelled(ctx):
    run_id = service.submit(ctx, SPEC)
    waiting.cancel(ctx, run_id)
    assert state(ctx, run_id) is RunState.CANCELLED
    waiting.cancel(ctx, run_id)
