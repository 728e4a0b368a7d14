"""Completions that are decoded in one batch, whatever is killed or away: each is answered once, and in time."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from app.core.states import RunKind, TaskState
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from tests.integration.chaos.script import expected_text
from tests.integration.chaos.stack import N, Stack
from tests.integration.waiting import wait_for

pytestmark = pytest.mark.slow

COMPANY = 5
SLACK_S = 4.0  # a busy machine's, for the last look at a deadline and the way to the client
OUTAGE_S = 4.0


@dataclass(frozen=True)
class Answer:
    """What a client got, and how long after it had asked."""

    prompt: str
    status: int
    body: dict
    took_s: float

    @property
    def reasons(self) -> set[str]:
        return {sample["finish_reason"] for sample in self.body["samples"]}


@pytest.fixture
def alone(stack: Stack) -> Stack:
    """The stack with one GPU worker."""
    stack.kill("gpu1")
    return stack


def ask(stack: Stack, prompt: str, budget_s: float) -> Answer:
    body = {"target": "smollm2-135m", "prompt": prompt, "n": N, "budget_s": budget_s, "seed": 7}
    began = time.monotonic()
    try:
        status, found = 200, stack.http("/api/v1/complete", body)
    except urllib.error.HTTPError as error:
        status, found = error.code, json.load(error)
    return Answer(prompt, status, found, time.monotonic() - began)


def company(stack: Stack, clients: ThreadPoolExecutor, seconds: float, budget_s: float) -> list[Future[Answer]]:
    """Completions in one batch of gpu0."""
    ask(stack, "# takes 0 warm up", 60)  # the engine is loaded: all clocks run from now on
    prompts = [f"# takes {seconds} batched {i} of {time.time()}" for i in range(COMPANY)]
    asked = [clients.submit(ask, stack, prompt, budget_s) for prompt in prompts]
    wait_for(lambda: stack.decoding()["gpu0"] == COMPANY)
    return asked


def assert_whole(answers: list[Answer]) -> None:
    for answer in answers:
        assert answer.status == 200, answer.body
        assert answer.reasons == {"stop"}
        assert [s["raw"] for s in answer.body["samples"]] == [expected_text(answer.prompt, 7, i) for i in range(N)]


def assert_stored_once(stack: Stack, answers: list[Answer]) -> None:
    with stack.ctx.database.read() as session:
        for answer in answers:
            if answer.status == 200:
                rows = session.query(RunTask).filter_by(run_id=answer.body["run"]["id"]).all()
                assert [row.state for row in rows] == [TaskState.FINISHED]
                assert session.query(Sample).filter_by(run_id=answer.body["run"]["id"]).count() == N
    # One that was answered with an error may still be decoded, or be given to a worker once more.
    wait_for(lambda: not waiting_or_decoding(stack), 60)


def waiting_or_decoding(stack: Stack) -> int:
    with stack.ctx.database.read() as session:
        open_tasks = session.query(RunTask).filter(RunTask.state.in_([TaskState.QUEUED, TaskState.DECODING]))
        return open_tasks.join(Run).filter(Run.kind == RunKind.COMPLETION).count()


@pytest.mark.thorough
def test_a_worker_killed_with_five_completions_leaves_each_to_another_one(stack: Stack):
    stack.signal("gpu1", signal.SIGSTOP)
    with ThreadPoolExecutor(COMPANY) as clients:
        asked = company(stack, clients, 3, 60)
        stack.signal("gpu1", signal.SIGCONT)
        stack.kill("gpu0")
        answers = [each.result() for each in asked]
    assert_whole(answers)
    assert_stored_once(stack, answers)


@pytest.mark.thorough
def test_without_another_worker_each_is_answered_at_the_end_of_its_budget(alone: Stack):
    with ThreadPoolExecutor(COMPANY) as clients:
        asked = company(alone, clients, 30, 8)
        alone.kill("gpu0")
        answers = [each.result() for each in asked]
    for answer in answers:
        assert answer.took_s < 8 + SLACK_S
        if answer.status == 200:
            assert answer.reasons == {"deadline"}
        else:
            assert "stopped answering" in answer.body["detail"]
    alone.ensure()
    assert_stored_once(alone, answers)


@pytest.mark.thorough
def test_a_redis_that_dies_and_forgets_everything_costs_no_answer(alone: Stack):
    with ThreadPoolExecutor(COMPANY) as clients:
        asked = company(alone, clients, OUTAGE_S + 4, 60)
        alone.redis.kill()
        time.sleep(OUTAGE_S)
        alone.redis.start()
        answers = [each.result() for each in asked]
    assert_whole(answers)
    assert_stored_once(alone, answers)


@pytest.mark.thorough
def test_a_database_that_is_away_costs_no_answer_or_gives_a_clear_error(alone: Stack):
    with ThreadPoolExecutor(COMPANY) as clients:
        asked = company(alone, clients, 3, 60)
        alone.postgres.kill()
        time.sleep(OUTAGE_S)
        alone.postgres.start()
        answers = [each.result() for each in asked]
    for answer in answers:
        if answer.status == 200:
            assert_whole([answer])
        else:
            assert answer.status == 503
            assert "database" in answer.body["detail"]
    assert_stored_once(alone, answers)
