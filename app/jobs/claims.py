"""Claims of a run's tasks (app/background/leases.py says what a claim is).

A job is one task of a run and has two steps, each claimed by itself: decode (queued -> decoding -> decoded) and
grade (decoded -> grading -> finished).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.background import leases
from app.background.leases import Lease, RowClaim, StopReason
from app.core.context import Context
from app.core.db.clock import clamp_end_to_start
from app.core.db.types import get_utc_time
from app.core.states import RunState, TaskState, WorkStep
from app.datasets.models import Task
from app.runs.models import Run, RunTask
from app.runs.policy import Policy, get_policy


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write to a job until the lease runs out. `position` is the task's place in its run, from 0."""

    row_claim: RowClaim
    run_id: uuid.UUID
    task_id: str
    position: int
    step: WorkStep
    policy: Policy

    @property
    def run_task_id(self) -> uuid.UUID:
        """The id of the job's row."""
        return self.row_claim.row_id

    @property
    def attempt(self) -> int:
        """How often the job was claimed, this time included."""
        return self.row_claim.attempt


def claim_job(ctx: Context, run_task_id: uuid.UUID, step: WorkStep) -> Claim | None:
    """Takes the job for one step; None if it is not waiting for it (a late or repeated message: nothing to do)."""
    may_work = (
        select(Run.id)
        .where(
            Run.id == RunTask.run_id,
            Run.state == RunState.RUNNING,
            or_(Run.pinned_worker.is_(None), Run.pinned_worker == ctx.worker_name),
        )
        .exists()
    )
    waits = (RunTask.state == step.waiting, may_work)
    row_claim = leases.claim_row(ctx, RunTask, run_task_id, *waits, state=step.working, started_at=get_utc_time())
    if row_claim is None:
        return None
    with ctx.database.read() as session:
        found = session.execute(
            select(RunTask.run_id, Task.task_id, RunTask.position, Run.policy)
            .select_from(RunTask)
            .join(RunTask.run)
            .join(RunTask.task)
            .where(RunTask.id == run_task_id)
        ).one_or_none()
    if found is None:
        return None  # the run was deleted a moment ago
    run_id, task_id, position, policy = found
    return Claim(row_claim, run_id, task_id, position, step, get_policy(policy))


def make_lease(ctx: Context, claim: Claim) -> Lease:
    """The lease of a claimed job, which watches its run."""

    def find_stop(session: Session) -> StopReason | None:
        run = session.execute(select(Run.state, Run.cancel_requested_at).where(Run.id == claim.run_id)).one_or_none()
        if run is None:
            return StopReason.FENCED  # the run was deleted
        state, cancelled_at = run
        if cancelled_at is not None:
            return StopReason.CANCELLED
        return None if state == RunState.RUNNING else StopReason.INTERRUPTED

    return Lease(ctx, claim.row_claim, find_stop)


def release(session: Session, claim: Claim, state: TaskState, **values: Any) -> None:
    """Leaves the job in `state`, owned by nobody. Raises LostClaimError, which rolls the unit of work back.

    Its end is never earlier than its start, whatever the clock does in between.
    """
    finished_at, started_at = values.get("finished_at"), values.get("started_at")
    if finished_at is not None:
        values["finished_at"] = (
            max(finished_at, started_at) if started_at else clamp_end_to_start(RunTask.started_at, finished_at)
        )
    claim.row_claim.release(session, state=state, **values)
