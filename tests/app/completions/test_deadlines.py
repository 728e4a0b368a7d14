"""A completion is answered when its budget is over, whatever its workers do."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import uuid

import pytest

from app.background.leases import LostClaimError
from app.completions import deadlines, service
from app.completions.schemas import CompletionSpec
from app.core.db.types import get_utc_time
from app.core.states import RunState, TaskState, WorkStep
from app.jobs import claims, reaper
from app.jobs.work import prepare
from app.runs import service as runs
from app.runs.models import Run, RunTask
from app.runs.repository import get_run, load_tasks_with_samples
from app.workers.models import Worker


@pytest.fixture
def run_id(ctx):
    """A completion of 2 samples within 4 seconds."""
    return service.submit(ctx, CompletionSpec(target="smollm2-135m", prompt="def f(", n=2, budget_s=4))


def job(ctx, run_id):
    with ctx.database.read() as session:
        return load_tasks_with_samples(session, run_id)[0]


def change(ctx, run_id, **values) -> None:
    with ctx.database.session() as session:
        row = session.get_one(RunTask, job(ctx, run_id).id)
        for name, value in values.items():
            setattr(row, name, value)


def ago(seconds: float) -> dt.datetime:
    return get_utc_time() - dt.timedelta(seconds=seconds)


def outcome(ctx, run_id):
    with ctx.database.read() as session:
        return get_run(session, run_id).state, [s.finish_reason for s in job(ctx, run_id).samples]


def test_one_that_waits_within_its_budget_is_left_alone(ctx, run_id):
    assert 0 < deadlines.enforce_deadline(ctx, run_id) <= 4
    assert outcome(ctx, run_id) == (RunState.RUNNING, [])


def test_one_that_waited_its_whole_budget_is_answered_without_text(ctx, run_id):
    change(ctx, run_id, queued_at=ago(4.5))
    deadlines.enforce_deadline(ctx, run_id)
    assert outcome(ctx, run_id) == (RunState.FINISHED, ["deadline"] * 2)
    for sample in job(ctx, run_id).samples:
        assert (sample.raw, sample.n_tokens, sample.n_rounds, sample.n_drafted, sample.n_accepted) == ("", 0, 0, 0, 0)
    assert job(ctx, run_id).queue_s >= 4.5
    assert deadlines.enforce_deadline(ctx, run_id) == math.inf


def test_a_graded_one_that_was_never_prepared_ends_too(ctx):
    spec = CompletionSpec(target="smollm2-135m", prompt="def f():\n", test="assert f() == 1", n=2, budget_s=4)
    run_id = service.submit(ctx, spec)
    change(ctx, run_id, queued_at=ago(5))
    deadlines.enforce_deadline(ctx, run_id)
    assert outcome(ctx, run_id) == (RunState.FINISHED, ["deadline"] * 2)


def test_one_that_a_live_worker_decodes_is_left_to_it(ctx, run_id):
    claim = claims.claim_job(ctx, job(ctx, run_id).id, WorkStep.DECODE)
    change(
        ctx,
        run_id,
        queued_at=ago(4.1),
        lease_until=get_utc_time() + dt.timedelta(seconds=deadlines.compute_lease_s(ctx, 4)),
    )
    deadlines.enforce_deadline(ctx, run_id)
    assert outcome(ctx, run_id) == (RunState.RUNNING, [])
    with ctx.database.session() as session:
        claims.release(session, claim, TaskState.FINISHED)


@pytest.mark.parametrize("budget_s", [5.0, 60.0, 500.0])
def test_whatever_its_budget_a_live_worker_is_not_taken_for_silent(ctx, budget_s):
    run_id = service.submit(ctx, CompletionSpec(target="smollm2-135m", prompt="def f(", n=2, budget_s=budget_s))
    lease = claims.make_lease(ctx, claims.claim_job(ctx, job(ctx, run_id).id, WorkStep.DECODE))
    lease.shorten(deadlines.compute_lease_s(ctx, budget_s))
    with ctx.database.session() as session:
        session.get_one(Run, run_id).started_at = ago(budget_s)
    change(ctx, run_id, queued_at=ago(budget_s + 0.1))
    deadlines.enforce_deadline(ctx, run_id)
    assert outcome(ctx, run_id) == (RunState.RUNNING, [])
    assert lease._heartbeat_s < deadlines.SILENT_S / 2


def test_one_whose_worker_is_silent_is_answered_with_an_error_and_the_worker_cannot_store(ctx, run_id):
    claim = claims.claim_job(ctx, job(ctx, run_id).id, WorkStep.DECODE)
    with ctx.database.session() as session:
        session.get_one(Run, run_id).started_at = ago(4)  # its model is loaded
    silent = deadlines.compute_lease_s(ctx, 4) - deadlines.SILENT_S - 0.5
    change(ctx, run_id, queued_at=ago(4.1), lease_until=get_utc_time() + dt.timedelta(seconds=silent))
    deadlines.enforce_deadline(ctx, run_id)
    assert outcome(ctx, run_id) == (RunState.FAILED, [])
    assert "stopped answering, and the budget is over" in job(ctx, run_id).error
    with pytest.raises(LostClaimError), ctx.database.session() as session:
        claims.release(session, claim, TaskState.FINISHED)


def test_while_the_model_is_loaded_no_budget_ends(ctx, run_id):
    other = service.submit(ctx, CompletionSpec(target="smollm2-135m", prompt="other", n=1, budget_s=4))
    claims.claim_job(ctx, job(ctx, other).id, WorkStep.DECODE)
    change(ctx, run_id, queued_at=ago(60))
    deadlines.enforce_deadline(ctx, run_id)
    assert outcome(ctx, run_id) == (RunState.RUNNING, [])
    deadlines.restart_clocks(ctx, other, "smollm2-135m")
    assert 3 < deadlines.enforce_deadline(ctx, run_id) <= 4


@pytest.fixture
def elsewhere(ctx):
    """Another worker, with the model in memory."""
    with ctx.database.session() as session:
        session.add(Worker(name="other:1", host="other", pid=1, model="qwen2.5-coder-0.5b, smollm2-135m"))
    return dataclasses.replace(ctx, worker_name="other:1")


def age_s(ctx, run_id) -> float:
    return (get_utc_time() - job(ctx, run_id).queued_at).total_seconds()


def test_a_model_that_is_loaded_restarts_no_clock_of_another_worker(ctx, run_id, elsewhere):
    """One is decoded there, and one waits for it: neither waited for this worker to load the model."""
    mine, theirs = (
        service.submit(ctx, CompletionSpec(target="smollm2-135m", prompt=text, n=1, budget_s=60)) for text in "ab"
    )
    claims.claim_job(elsewhere, job(ctx, theirs).id, WorkStep.DECODE)
    claims.claim_job(ctx, job(ctx, mine).id, WorkStep.DECODE)
    for each, seconds in ((mine, 40), (theirs, 50), (run_id, 55)):
        change(ctx, each, queued_at=ago(seconds))
    deadlines.restart_clocks(ctx, mine, "smollm2-135m")
    assert age_s(ctx, mine) < 30
    assert age_s(ctx, theirs) >= 50
    assert age_s(ctx, run_id) >= 55


def test_a_model_that_is_loaded_restarts_those_that_waited_for_it_and_no_other_decoded_one(ctx, run_id, elsewhere):
    with ctx.database.session() as session:
        session.get_one(Worker, elsewhere.worker_name).model = "qwen2.5-coder-0.5b"
    mine, theirs = (
        service.submit(ctx, CompletionSpec(target="smollm2-135m", prompt=text, n=1, budget_s=60)) for text in "ab"
    )
    claims.claim_job(elsewhere, job(ctx, theirs).id, WorkStep.DECODE)
    claims.claim_job(ctx, job(ctx, mine).id, WorkStep.DECODE)
    for each in (mine, theirs, run_id):
        change(ctx, each, queued_at=ago(50))
    deadlines.restart_clocks(ctx, mine, "smollm2-135m")
    assert age_s(ctx, run_id) < 30
    assert age_s(ctx, theirs) >= 50


@pytest.mark.usefixtures("elsewhere")
def test_a_model_that_is_loaded_again_extends_no_budget_while_another_worker_has_it(ctx, run_id):
    loading = service.submit(ctx, CompletionSpec(target="smollm2-135m", prompt="other", n=1, budget_s=4))
    claims.claim_job(ctx, job(ctx, loading).id, WorkStep.DECODE)
    change(ctx, run_id, queued_at=ago(5))
    deadlines.enforce_deadline(ctx, run_id)
    assert outcome(ctx, run_id) == (RunState.FINISHED, ["deadline"] * 2)


def test_an_evaluation_that_waits_for_its_turn_is_not_taken_for_a_model_that_is_loaded(ctx, run_id, spec):
    evaluation = runs.submit(ctx, spec())
    prepare.prepare_run(ctx, evaluation)
    claims.claim_job(ctx, job(ctx, evaluation).id, WorkStep.DECODE)
    change(ctx, run_id, queued_at=ago(60))
    deadlines.enforce_deadline(ctx, run_id)
    assert outcome(ctx, run_id) == (RunState.FINISHED, ["deadline"] * 2)


def test_a_race_waits_for_its_turn_outside_of_its_clock(ctx, run_id):
    spec = CompletionSpec(target="smollm2-135m", prompt="def f(", n=2, budget_s=4)
    second = service.submit(ctx, spec, after_id=run_id)
    change(ctx, second, queued_at=ago(60))
    assert deadlines.enforce_deadline(ctx, second) == math.inf
    deadlines.enforce_deadline(ctx, run_id)
    change(ctx, run_id, queued_at=ago(5))
    deadlines.enforce_deadline(ctx, run_id)
    prepare.prepare_run(ctx, second)  # the end of the first asks for this
    assert 3 < deadlines.enforce_deadline(ctx, second) <= 4


def test_the_reaper_answers_those_that_nobody_waits_for(ctx, run_id):
    change(ctx, run_id, queued_at=ago(5))
    reaper.reap(ctx)
    assert outcome(ctx, run_id)[0] is RunState.FINISHED


def test_a_lost_job_goes_to_another_worker_at_once(ctx, run_id):
    claims.claim_job(ctx, job(ctx, run_id).id, WorkStep.DECODE)
    change(ctx, run_id, lease_until=ago(0.1))
    reaper.return_expired_of_run(ctx, run_id)
    row = job(ctx, run_id)
    assert (row.state, row.fence) == (TaskState.QUEUED, None)
    assert row.enqueued_at is not None


def test_what_is_not_there_has_no_deadline(ctx):
    assert deadlines.enforce_deadline(ctx, uuid.uuid4()) == math.inf
