"""Completions are decoded together, each with its own clock, samples and end; evaluations share no batch with them."""

from __future__ import annotations

import datetime as dt
import threading

import pytest

from app.completions import service
from app.completions.schemas import CompletionSpec
from app.core.db.types import get_utc_time
from app.core.errors import BadInputError
from app.core.states import RunState, TaskState
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.work import decode_batch, prepare
from app.jobs.work.decode import decode_task
from app.runs import service as runs
from app.runs import transitions
from app.runs.models import RunTask
from app.runs.repository import get_run, load_tasks_with_samples
from app.workers.models import Worker
from tests.integration.waiting import wait_for


@pytest.fixture
def ask(ctx):
    """Submits a completion; returns its run's id."""

    def submit(prompt: str = "def add(a, b):\n", **changes):
        return service.submit(
            ctx, CompletionSpec(**{"target": "smollm2-135m", "prompt": prompt, "n": 2, "budget_s": 30, **changes})
        )

    return submit


def job(ctx, run_id):
    with ctx.database.read() as session:
        return load_tasks_with_samples(session, run_id)[0]


def state(ctx, run_id):
    with ctx.database.read() as session:
        return get_run(session, run_id).state


def accepted(ctx, run_id, seconds_ago: float) -> None:
    with ctx.database.session() as session:
        session.get_one(RunTask, job(ctx, run_id).id).queued_at -= dt.timedelta(seconds=seconds_ago)


def loaded(ctx, ask) -> None:
    """Has the engine in memory, so that no clock starts again."""
    decode_task(ctx, job(ctx, ask("warm up")).id)


def test_one_message_decodes_all_completions_that_wait_for_the_engine(ctx, ask, engine):
    ids = [ask(f"prompt {i}") for i in range(5)]
    engine.places = 8
    decode_task(ctx, job(ctx, ids[0]).id)
    assert [state(ctx, run_id) for run_id in ids] == [RunState.FINISHED] * 5
    assert engine.most_together == 5
    assert [job(ctx, run_id).prompt_sent for run_id in ids] == [f"prompt {i}" for i in range(5)]


def test_no_more_are_decoded_together_than_the_setting_allows(ctx, ask, engine):
    ids = [ask(f"prompt {i}") for i in range(5)]
    ctx.settings = ctx.settings.model_copy(update={"completions_together": 2})
    engine.places = 8
    decode_task(ctx, job(ctx, ids[0]).id)
    assert engine.most_together == 2
    assert [state(ctx, run_id) for run_id in ids] == [RunState.FINISHED] * 5


@pytest.mark.parametrize(
    ("places", "changes"), [(1, {}), (8, {"target": "qwen2.5-coder-0.5b", "budget_s": 5})], ids=["full", "other engine"]
)
def test_open_completions_wait_for_a_look_at_the_database_only_now_and_then(
    ctx, ask, engine, monkeypatch, places, changes
):
    """Also while none can be claimed, because the batch is full or one for another engine comes first."""
    monkeypatch.setattr(decode_batch, "POLL_S", 1000.0)
    reads, read, thread = [], ctx.database.read, threading.current_thread()

    def record_read():
        if threading.current_thread() is thread:  # leases have their own
            reads.append("read")
        return read()

    def serve(requests, *_):
        request = next(requests)
        assert next(requests) is None
        reads.clear()
        assert [next(requests), next(requests), *reads] == [None, None]
        yield 0, engine.generate(request)

    monkeypatch.setattr(engine, "serve", serve)
    monkeypatch.setattr(ctx.database, "read", record_read)
    first, _ = ask("a"), ask("b", **changes)
    ctx.settings = ctx.settings.model_copy(update={"completions_together": places})
    decode_task(ctx, job(ctx, first).id)
    assert state(ctx, first) is RunState.FINISHED


def test_the_earliest_deadline_is_decoded_first(ctx, ask, engine):
    budgets = {"a": 30, "b": 9, "c": 20, "d": 6}
    ids = [ask(name, budget_s=budget) for name, budget in budgets.items()]
    engine.places = 1
    decode_task(ctx, job(ctx, ids[0]).id)
    assert [request.prompt for request in engine.requests] == ["a", "d", "b", "c"]


def test_one_for_another_engine_with_an_earlier_deadline_is_not_kept_waiting(ctx, ask, engine):
    first, other, later = ask("a"), ask("b", target="qwen2.5-coder-0.5b", budget_s=5), ask("c")
    engine.places = 1
    decode_task(ctx, job(ctx, first).id)
    assert [state(ctx, run_id) for run_id in (first, other, later)] == [RunState.FINISHED, *[RunState.RUNNING] * 2]


def test_a_worker_that_was_asked_to_stop_finishes_its_batch_and_takes_no_more(ctx, ask, engine):
    first, later = ask("a"), ask("b")
    with ctx.database.session() as session:
        session.add(Worker(name=ctx.worker_name, host="here", pid=1, stopped_at=get_utc_time()))
    decode_task(ctx, job(ctx, first).id)
    assert [state(ctx, run_id) for run_id in (first, later)] == [RunState.FINISHED, RunState.RUNNING]


def test_an_evaluation_shares_no_batch_with_completions(ctx, ask, spec, engine):
    run_id = runs.submit(ctx, spec())
    prepare.prepare_run(ctx, run_id)
    completion = ask()
    engine.places = 8
    decode_task(ctx, job(ctx, completion).id)
    with ctx.database.read() as session:
        assert {row.state for row in load_tasks_with_samples(session, run_id)} == {TaskState.QUEUED}
    decode_task(ctx, job(ctx, run_id).id)
    assert engine.most_together == 1


def test_waiting_counts_from_the_moment_of_acceptance(ctx, ask, engine):
    loaded(ctx, ask)
    run_id = ask("late", budget_s=10)
    accepted(ctx, run_id, 4.0)
    decode_task(ctx, job(ctx, run_id).id)
    request = engine.requests[-1]
    assert request.budget_s == 10
    assert request.waited_s >= 4


def test_the_time_that_a_model_takes_to_load_is_on_nobodys_clock(ctx, ask, engine):
    ids = [ask(f"prompt {i}", budget_s=10) for i in range(2)]
    for run_id in ids:
        accepted(ctx, run_id, 8.0)
    decode_task(ctx, job(ctx, ids[0]).id)
    assert all(request.waited_s < 8 for request in engine.requests)
    assert len(engine.requests) == 2


def test_a_completion_that_is_cancelled_leaves_the_batch_alone(ctx, ask, engine):
    engine.hold, engine.places = threading.Event(), 4
    with EmbeddedWorkers(ctx, "test"):
        first = ask("a")
        assert engine.started.wait(60)
        second = ask("b")
        transitions.cancel(ctx, first)
        wait_for(lambda: state(ctx, first) is RunState.CANCELLED)
        assert [s.finish_reason for s in job(ctx, first).samples] == ["cancelled"] * 2
        engine.hold.set()
        wait_for(lambda: state(ctx, second) is RunState.FINISHED)


def test_one_that_the_engine_refuses_fails_alone(ctx, ask, engine):
    ids = [ask("a"), ask("x" * 5000), ask("c")]
    engine.places = 4
    decode_task(ctx, job(ctx, ids[0]).id)
    assert [state(ctx, i) for i in ids] == [RunState.FINISHED, RunState.FAILED, RunState.FINISHED]
    assert "shorten it" in job(ctx, ids[1]).error


def test_after_a_fault_all_are_tried_together_once_more_and_then_alone(ctx, ask, engine, monkeypatch):
    ids = [ask(f"prompt {i}") for i in range(3)]
    engine.places, tries = 4, []

    def broken(requests, *_):
        tries.append(sum(request is not None for request, _ in zip(requests, range(3), strict=False)))
        raise RuntimeError("the logits are no numbers")
        yield

    monkeypatch.setattr(engine, "serve", broken)
    for run_id in (ids[0], ids[0], *ids):
        decode_task(ctx, job(ctx, run_id).id)
    assert tries == [3, 3]
    assert [state(ctx, i) for i in ids] == [RunState.FINISHED] * 3
    assert not any(thread.name.startswith("lease-") for thread in threading.enumerate())


def test_fewer_samples_are_an_answer_where_the_caller_allows_them(ctx, ask, engine, monkeypatch):
    asked_for = []

    def serve(requests, *_):
        for position, request in enumerate(r for r in requests if r is not None):
            asked_for.append((request.n, request.n_min))
            done = engine.generate(request)
            done.samples = done.samples[: request.n_min]
            yield position, done

    monkeypatch.setattr(engine, "serve", serve)
    run_id = ask(n=5, n_min=2)
    decode_task(ctx, job(ctx, run_id).id)
    assert asked_for == [(5, 2)]
    assert (state(ctx, run_id), len(job(ctx, run_id).samples)) == (RunState.FINISHED, 2)


def test_more_than_n_are_not_a_least_number_of_samples(ask):
    with pytest.raises(BadInputError, match="n_min is 9 and n is 2: give at most n"):
        ask(n_min=9)


def test_leases_of_completions_are_short_enough_for_another_worker_to_answer(ctx, ask, engine):
    engine.hold = threading.Event()
    with EmbeddedWorkers(ctx, "test"):
        run_id = ask(budget_s=8)
        assert engine.started.wait(60)
        row = job(ctx, run_id)
        left_s = (row.lease_until - row.started_at).total_seconds()
        assert left_s < 8
        engine.hold.set()
