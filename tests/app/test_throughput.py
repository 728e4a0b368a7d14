"""A run for throughput decodes several tasks in one batch; each keeps its own claim, samples and end."""

from __future__ import annotations

import datetime as dt
import threading

import pytest

from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.core import ports
from app.core.states import RunState, TaskState
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.work import prepare
from app.jobs.work.decode import decode_task
from app.leaderboard.entries import LeaderboardCache
from app.leaderboard.service import rank_runs
from app.runs import service, transitions
from app.runs.clock import sum_decoding_s
from app.runs.models import RunTask
from app.runs.repository import compute_progress, get_run, load_tasks_with_samples
from tests.app.stub_server import DONE, LONG_S, Reply, choice, event, serve_stub
from tests.app.test_embedded import ended, state_of
from tests.integration.waiting import wait_for


@pytest.fixture
def prepared(ctx, spec):
    """Makes a run for throughput that no worker works; returns its id and its tasks' row ids in order."""

    def make(pinned_worker=None, **changes):
        run_id = service.submit(ctx, spec(throughput=True, **changes), pinned_worker=pinned_worker)
        prepare.prepare_run(ctx, run_id)
        return run_id, [row.id for row in rows(ctx, run_id)]

    return make


def rows(ctx, run_id):
    with ctx.database.read() as session:
        return load_tasks_with_samples(session, run_id)


def states(ctx, run_id):
    return [row.state for row in rows(ctx, run_id)]


def test_one_message_decodes_all_tasks_and_the_run_is_finished_but_not_ranked(ctx, spec, engine):
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec(throughput=True))
        wait_for(ended(ctx, run_id))
    assert engine.most_together == 2
    assert len(engine.requests) == 3
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        assert (run.state, run.figures.pass_first) == (RunState.FINISHED, 1.0)
        assert "--throughput" in run.command.split()
        (row,) = rank_runs(LeaderboardCache().read(session))
        assert (row.rank, row.run.unranked_reason) == (None, "throughput")


def test_a_request_that_the_engine_refuses_fails_alone(ctx, prepared):
    run_id, ids = prepared()
    with ctx.database.session() as session:
        session.get_one(RunTask, ids[1]).task.prompt += "# " + "x" * 5000
    decode_task(ctx, ids[0])
    found = rows(ctx, run_id)
    assert [row.state for row in found] == [TaskState.DECODED, TaskState.FAILED, TaskState.DECODED]
    assert "shorten it" in found[1].error


def test_a_task_that_cannot_be_prompted_fails_and_leaves_the_batch_to_the_others(ctx, prepared):
    run_id, ids = prepared()
    with ctx.database.session() as session:
        session.get_one(RunTask, ids[1]).task.suffix = "    return total\n"
    decode_task(ctx, ids[0])
    assert states(ctx, run_id) == [TaskState.DECODED, TaskState.FAILED, TaskState.DECODED]


def test_after_a_fault_of_the_engine_each_task_is_tried_again_alone(ctx, prepared, engine):
    run_id, ids = prepared()

    def broken(requests, *args):
        incoming = iter(requests)
        next(incoming), next(incoming)
        raise RuntimeError("the logits are no numbers")
        yield

    together, engine.generate_many = engine.generate_many, broken
    decode_task(ctx, ids[0])
    found = rows(ctx, run_id)
    assert [(row.state, row.attempt) for row in found] == [(TaskState.QUEUED, n) for n in (1, 1, 0)]
    assert "no numbers" in found[0].error
    assert not any(thread.name.startswith("lease-") for thread in threading.enumerate())
    engine.generate_many = together
    decode_task(ctx, ids[0])
    assert states(ctx, run_id) == [TaskState.DECODED, TaskState.QUEUED, TaskState.QUEUED]


def test_a_task_that_another_worker_took_is_left_to_it(ctx, prepared, engine):
    run_id, ids = prepared()
    generate = engine.generate

    def stolen(request, *args):
        if not engine.requests:
            with ctx.database.session() as session:
                session.get_one(RunTask, ids[0]).fence = run_id
        return generate(request, *args)

    engine.generate = stolen
    decode_task(ctx, ids[0])
    assert states(ctx, run_id) == [TaskState.DECODING, TaskState.DECODED, TaskState.DECODED]
    assert rows(ctx, run_id)[0].samples == []


def test_cancel_ends_every_task_of_the_batch_and_keeps_their_samples(ctx, spec, engine):
    engine.hold = threading.Event()
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec(throughput=True))
        assert engine.started.wait(60)
        service.cancel(ctx, run_id)
        wait_for(ended(ctx, run_id))
    assert states(ctx, run_id) == [TaskState.CANCELLED] * 3
    assert [[s.finish_reason for s in row.samples] for row in rows(ctx, run_id)] == [["cancelled"] * 2] * 2 + [[]]


def test_an_interrupted_batch_goes_back_and_is_finished_by_resume(ctx, spec, engine):
    engine.hold = threading.Event()
    with EmbeddedWorkers(ctx, "eval", pinned_only=True):
        run_id = service.submit(ctx, spec(throughput=True), pinned_worker=ctx.worker_name)
        assert engine.started.wait(60)
        assert transitions.interrupt(ctx, run_id)
    assert states(ctx, run_id) == [TaskState.QUEUED] * 3
    engine.hold = None
    ctx.stopping.clear()
    with EmbeddedWorkers(ctx, "resume", pinned_only=True):
        service.resume(ctx, run_id, ctx.worker_name)
        wait_for(ended(ctx, run_id))
    assert state_of(ctx, run_id) is RunState.FINISHED


def test_nothing_is_added_to_a_batch_while_a_completion_waits(ctx, prepared):
    run_id, ids = prepared()
    asked = completions.submit(ctx, CompletionSpec(target="smollm2-135m", prompt="# one\n"))
    prepare.prepare_run(ctx, asked)
    decode_task(ctx, ids[0])
    assert states(ctx, run_id) == [TaskState.DECODED, TaskState.QUEUED, TaskState.QUEUED]


def test_nothing_is_added_to_a_batch_after_the_time_limit(ctx, prepared):
    run_id, ids = prepared(time_limit_s=1e-6)
    decode_task(ctx, ids[0])
    assert states(ctx, run_id) == [TaskState.DECODED, TaskState.SKIPPED, TaskState.SKIPPED]


def test_tokens_per_second_are_over_the_time_that_tasks_together_cover(ctx, prepared):
    run_id, ids = prepared()
    decode_task(ctx, ids[0])  # the fake says 0.2 s each, and works in no time
    with ctx.database.session() as session:
        for row_id, waited in zip(ids, (1.0, 1.1, 60.0), strict=True):
            session.get_one(RunTask, row_id).queue_s = waited
    with ctx.database.read() as session:
        found = compute_progress(session, get_run(session, run_id))
    assert found.decode_s == pytest.approx(0.3 + 0.2)
    assert found.tokens_per_s == pytest.approx(24 / 0.5)


def test_busy_time_is_a_sum_for_tasks_one_by_one_and_a_union_for_tasks_together():
    began = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    walls = [(began, 4.0, 1.0), (began, 0.0, 3.0), (began, 1.0, 1.0), (began, None, None)]
    assert sum_decoding_s(walls, together=False) == 5.0
    assert sum_decoding_s(walls, together=True) == 4.0


def test_a_remote_target_is_asked_for_several_tasks_at_once(ctx, prepared):
    ctx.load_engine = ports.load_engine
    together = threading.Barrier(3, timeout=LONG_S)

    def answer(reply: Reply, body: dict) -> None:
        if "Sum" in body["prompt"]:
            together.wait()
        reply.start().write(*(event(choice("x", "stop", i)) for i in range(body.get("n", 1))), DONE)

    with serve_stub(answer) as stub:
        run_id, ids = prepared(ctx.worker_name, target=f"openai:m@{stub.url}", budget_s=LONG_S)
        decode_task(ctx, ids[0])
    assert [(row.state, len(row.samples)) for row in rows(ctx, run_id)] == [(TaskState.DECODED, 2)] * 3


@pytest.mark.thorough
@pytest.mark.model
def test_a_real_model_decodes_tasks_side_by_side(ctx, prepared):
    ctx.load_engine = ports.load_engine
    run_id, ids = prepared(max_tokens=8, budget_s=60, drafter="none")
    decode_task(ctx, ids[0])
    found = rows(ctx, run_id)
    assert [(row.state, len(row.samples)) for row in found] == [(TaskState.DECODED, 2)] * 3
    walls = [(row.queued_at, row.queue_s, row.wall_s) for row in found]
    assert sum_decoding_s(walls, together=True) < sum_decoding_s(walls, together=False)
