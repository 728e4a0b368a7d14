"""The first step of a run: check the sandbox and the canonical solutions, then enqueue the tasks."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

import structlog
from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from app.background.handlers import UnfinishedError
from app.background.leases import LostClaimError
from app.background.models import BackgroundJob
from app.background.work import JOB_TURN_S
from app.core.context import Context
from app.core.db.database import OUTAGES, call_after_commit, execute_change
from app.core.db.types import get_utc_time
from app.core.errors import BasslineError
from app.core.events import event_types
from app.core.ports import require_toolchains
from app.core.states import BackgroundJobState, Failure, RunState, WorkStep
from app.datasets.checking import CheckDataset, check_solutions_within
from app.datasets.models import Task
from app.runs import enqueue, transitions
from app.runs.models import Run, RunTask
from app.runs.policy import find_policy

CANONICAL_FAILS = "its canonical solution fails in this sandbox"
log = structlog.get_logger(__name__)


def prepare_run(ctx: Context, run_id: uuid.UUID) -> None:
    """Makes a queued run running and enqueues its tasks, once its policy says that it is ready. Safe to call twice; a
    run that cannot be graded fails."""
    with ctx.database.read() as session:
        run = session.get(Run, run_id)
        if run is None or run.state != RunState.QUEUED or run.pinned_worker not in (None, ctx.worker_name):
            return
        policy = find_policy(session, run_id)
        if not policy.is_ready(session, run):
            return
    try:
        toolchains = _list_toolchains(ctx, run)
        failing = _find_failing_tasks(ctx, run)
    except (LostClaimError, UnfinishedError):
        # It stays queued while its dataset is checked: what ends the check, or the reaper, sends its message.
        with ctx.database.session() as session:
            waiting = update(Run).where(Run.id == run_id, Run.state == RunState.QUEUED)
            session.execute(waiting.values(enqueued_at=None))
        return
    except BasslineError as error:
        transitions.fail_run(ctx, run_id, Failure.DATASET, str(error))
        return
    except OUTAGES:
        raise  # the run stays queued, and the reaper enqueues it again
    except Exception as error:
        log.exception("preparing failed", run=str(run_id))
        transitions.fail_run(
            ctx, run_id, Failure.DATASET, f"the dataset cannot be checked: {type(error).__name__}: {error}"
        )
        return
    with ctx.database.session() as session:
        if not execute_change(
            session, update(Run).where(Run.id == run_id, Run.state == RunState.QUEUED).values(state=RunState.RUNNING)
        ):
            return
        run = session.get_one(Run, run_id)
        _exclude(run, failing, session)
        if toolchains:
            run.provenance = {**run.provenance, "toolchain": ", ".join(toolchains)}
        policy.on_prepare(session, run)
        call_after_commit(
            session, ctx.bus.publish, run_id, event_types.STATE, {"state": RunState.RUNNING, "error": None}
        )
        for step, ids in _mark_enqueued(session, run_id).items():
            call_after_commit(session, policy.send_messages, ctx, run_id, step, ids)
    transitions.close_if_done(ctx, run_id)
    policy.after_step(ctx, run_id)


class CheckDatasetForRuns(CheckDataset):
    """A check of a dataset for the runs that wait for it, which are prepared when it has ended."""

    def is_wanted(self, ctx: Context, job: BackgroundJob) -> bool:
        """Whether a run still waits for it."""
        return bool(_find_runs_over_dataset(ctx, job))

    def on_job_end(self, ctx: Context, job: BackgroundJob) -> None:
        """Asks for the runs to be prepared that waited; they fail if the workers were lost."""
        lost = job.state is BackgroundJobState.FAILED and (job.error or "").startswith(Failure.WORKER_LOST)
        for run_id in _find_runs_over_dataset(ctx, job):
            if lost:
                transitions.fail_run(ctx, run_id, Failure.WORKER_LOST, job.error or "")
                continue
            with ctx.database.session() as session:
                waiting = update(Run).where(Run.id == run_id, Run.enqueued_at.is_(None))
                if execute_change(session, waiting.values(enqueued_at=get_utc_time())):
                    call_after_commit(session, enqueue.enqueue_preparation, ctx, run_id)


def _find_runs_over_dataset(ctx: Context, job: BackgroundJob) -> Sequence[uuid.UUID]:
    """The queued runs over the dataset of a check that this worker may prepare."""
    ours = or_(Run.pinned_worker.is_(None), Run.pinned_worker == ctx.worker_name)
    dataset_id = uuid.UUID(job.arguments["dataset_id"])
    with ctx.database.read() as session:
        queued = select(Run.id).where(Run.dataset_id == dataset_id, Run.graded, Run.state == RunState.QUEUED, ours)
        return session.scalars(queued).all()


def _find_failing_tasks(ctx: Context, run: Run) -> Collection[str]:
    """Ids of the dataset's tasks whose own solution fails here. Raises if what is graded cannot be graded here."""
    if not run.graded:
        return []
    if run.dataset_id is None:
        ctx.make_grader()
        return []  # a prompt has no solution
    return check_solutions_within(ctx, run.dataset_id, turn_s=JOB_TURN_S)


def _list_toolchains(ctx: Context, run: Run) -> list[str]:
    """The toolchains that will judge the run. Raises UnavailableError where one is missing."""
    if not run.graded:
        return []
    with ctx.database.read() as session:
        query = select(Task.language).join(RunTask, RunTask.task_pk == Task.id).where(RunTask.run_id == run.id)
        return require_toolchains(session.scalars(query.distinct()))


def _exclude(run: Run, failing: Collection[str], session: Session) -> None:
    """Removes tasks that no model can pass from the run, and lists them in `excluded`."""
    if not failing:
        return
    bad = session.execute(
        select(RunTask.id, Task.task_id).join(RunTask.task).where(RunTask.run_id == run.id, Task.task_id.in_(failing))
    ).all()
    session.execute(delete(RunTask).where(RunTask.id.in_([row_id for row_id, _ in bad])))
    run.excluded = [*run.excluded, *({"task_id": task_id, "reason": CANONICAL_FAILS} for _, task_id in bad)]
    run.n_tasks = session.scalar(select(func.count()).where(RunTask.run_id == run.id)) or 0


def _mark_enqueued(session: Session, run_id: uuid.UUID) -> dict[WorkStep, list[uuid.UUID]]:
    """The ids of the run's waiting jobs in their order, by the step they wait for."""
    now = get_utc_time()
    waiting: dict[WorkStep, list[uuid.UUID]] = {step: [] for step in WorkStep}
    step_of = {step.waiting: step for step in WorkStep}
    for row in session.scalars(
        select(RunTask).where(RunTask.run_id == run_id, RunTask.state.in_(step_of)).order_by(RunTask.position)
    ):
        waiting[step_of[row.state]].append(row.id)
        row.enqueued_at = now
    return waiting
