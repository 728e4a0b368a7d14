"""The embedded form works runs to their end, and a second owner of the database is refused."""

from __future__ import annotations

import threading

import pytest

from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.core.errors import UnavailableError
from app.core.states import RunState, TaskState
from app.jobs.embedded import EmbeddedWorkers
from app.runs import service, transitions
from app.runs.repository import get_run, load_tasks_with_samples
from tests.integration.waiting import wait_for


def state_of(ctx, run_id):
    with ctx.database.read() as session:
        return get_run(session, run_id).state


def ended(ctx, run_id):
    return lambda: state_of(ctx, run_id) not in (RunState.QUEUED, RunState.RUNNING)


def test_a_run_is_decoded_graded_and_closed_with_figures(ctx, spec):
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec())
        wait_for(ended(ctx, run_id))
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        tasks = load_tasks_with_samples(session, run_id)
        assert run.state is RunState.FINISHED
        assert [t["task_id"] for t in run.excluded] == ["add/3"]  # its own solution fails
        assert run.n_tasks == 3
        assert [[s.verdict for s in t.samples] for t in tasks] == [["passed", "wrong_answer"]] * 3
        assert run.figures.pass_first == 1.0
        assert run.figures.pass_at_1 == 0.5
        assert run.figures.mean_acceptance_length == 2.0
        assert run.curve.pass_all[-1] == 1.0
        assert run.provenance["device"] == "fake"
        assert run.command.startswith("bassline eval --target smollm2-135m")


def test_a_second_process_on_the_database_is_refused(ctx):
    with (
        EmbeddedWorkers(ctx, "serve"),
        pytest.raises(UnavailableError, match=r"in use by bassline serve \(process \d+\)"),
        EmbeddedWorkers(ctx, "eval"),
    ):
        pass


def test_no_thread_of_it_goes_on_after_its_end(ctx):
    before = set(threading.enumerate())
    with EmbeddedWorkers(ctx, "test"):
        assert set(threading.enumerate()) > before
    assert {t.name for t in set(threading.enumerate()) - before} == set()


def test_cancel_stops_an_engine_at_work_and_keeps_its_samples(ctx, spec, engine):
    engine.hold = threading.Event()  # never set: only the cancellation ends its work
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec())
        assert engine.started.wait(60)
        service.cancel(ctx, run_id)
        wait_for(ended(ctx, run_id))
    with ctx.database.read() as session:
        assert get_run(session, run_id).state is RunState.CANCELLED
        first, *rest = load_tasks_with_samples(session, run_id)
        assert [s.finish_reason for s in first.samples] == ["cancelled", "cancelled"]
        assert {t.state for t in rest} == {TaskState.CANCELLED}


def test_an_interrupted_run_keeps_what_it_has_and_is_finished_by_resume(ctx, spec, engine):
    engine.hold = threading.Event()
    with EmbeddedWorkers(ctx, "eval", pinned_only=True):
        run_id = service.submit(ctx, spec(), pinned_worker=ctx.worker_name)
        assert engine.started.wait(60)
        assert transitions.interrupt(ctx, run_id)
    assert state_of(ctx, run_id) is RunState.INTERRUPTED
    engine.hold = None
    ctx.stopping.clear()
    with EmbeddedWorkers(ctx, "resume", pinned_only=True):
        service.resume(ctx, run_id, ctx.worker_name)
        wait_for(ended(ctx, run_id))
    assert state_of(ctx, run_id) is RunState.FINISHED
    with ctx.database.read() as session:
        assert all(len(t.samples) == 2 for t in load_tasks_with_samples(session, run_id))


def test_completions_go_before_the_batch_that_waits(ctx, spec, engine):
    engine.hold = threading.Event()
    with EmbeddedWorkers(ctx, "test"):
        batch = service.submit(ctx, spec())
        assert engine.started.wait(60)
        asked = [completions.submit(ctx, CompletionSpec(target="smollm2-135m", prompt=f"# {i}\n")) for i in range(3)]
        wait_for(lambda: all(state_of(ctx, run_id) is RunState.RUNNING for run_id in asked))
        engine.hold.set()
        wait_for(ended(ctx, batch))
    assert [r.prompt for r in engine.requests[1:4]] == ["# 0\n", "# 1\n", "# 2\n"]


def test_work_left_by_a_killed_process_is_done_at_the_next_start(ctx, spec):
    run_id = service.submit(ctx, spec())  # no worker gets the message
    with EmbeddedWorkers(ctx, "test"):
        wait_for(ended(ctx, run_id))
    assert state_of(ctx, run_id) is RunState.FINISHED


def test_no_further_task_is_started_after_the_time_limit(ctx, spec):
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec(time_limit_s=1e-6))  # over once the first task has started
        wait_for(ended(ctx, run_id))
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        assert run.state is RunState.FINISHED
        assert (run.figures.tasks, run.figures.tasks_selected) == (1, 3)


def test_a_run_without_a_sandbox_fails_before_anything_is_decoded(ctx, spec, engine):
    def no_sandbox():
        raise UnavailableError("no sandbox on this machine")

    ctx.make_grader = no_sandbox
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec())
        wait_for(ended(ctx, run_id))
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        assert (run.state, run.error) == (RunState.FAILED, "no sandbox on this machine")
    assert not engine.requests
