"""Who owns a job: claim and release. The row decides; a broker message only says that there is work (docs/jobs.md).

A job is one task of a run and has two steps, each claimed by itself: decode (queued -> decoding -> decoded) and
grade (decoded -> grading -> finished). A claim is one conditional UPDATE that writes a fresh attempt token. Every
later write carries `WHERE attempt_token = mine`, so a worker that lost its lease can change nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.context import Context
from app.datasets.models import Task
from app.db.clock import database_time, no_earlier_than
from app.db.database import updated_any
from app.db.ids import new_id
from app.db.types import utcnow
from app.runs.models import Run, RunTask
from app.runs.policy import Policy, policies, policy_number
from app.states import RunState, Step, TaskState

MAX_ATTEMPTS = 3
SERIALIZATION_FAILURES = ("40001", "40P01")  # PostgreSQL: could not serialize, deadlock


class LostClaimError(Exception):
    """Another worker owns the job by now; what was computed for it is dropped."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write to a job until the lease runs out. `position` is the task's place in its run, from 0."""

    run_task_id: uuid.UUID
    run_id: uuid.UUID
    task_id: str
    position: int
    token: uuid.UUID
    step: Step
    attempt: int
    policy: Policy


def claim(ctx: Context, run_task_id: uuid.UUID, step: Step) -> Claim | None:
    """Takes the job for one step; None if it is not waiting for it (a late or repeated message: nothing to do)."""
    token, now = new_id(), utcnow()
    may_work = (
        select(Run.id)
        .where(
            Run.id == RunTask.run_id,
            Run.state == RunState.RUNNING,
            or_(Run.pinned_worker.is_(None), Run.pinned_worker == ctx.worker_name),
        )
        .exists()
    )
    try:
        with ctx.database.session() as session:
            won = session.execute(
                update(RunTask)
                .where(RunTask.id == run_task_id, RunTask.state == step.waiting, may_work)
                .values(
                    state=step.working,
                    attempt=RunTask.attempt + 1,
                    attempt_token=token,
                    worker=ctx.worker_name,
                    started_at=now,
                    lease_until=database_time(session, ctx.settings.lease_s),
                )
                .returning(RunTask.run_id, RunTask.attempt),
                execution_options={"synchronize_session": False},
            ).one_or_none()
            if won is None:
                return None
            number, task_id, position = session.execute(
                select(policy_number(), Task.task_id, RunTask.position)
                .select_from(RunTask)
                .join(RunTask.run)
                .join(RunTask.task)
                .where(RunTask.id == run_task_id)
            ).one()
            return Claim(run_task_id, won.run_id, task_id, position, token, step, won.attempt, policies()[number])
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in SERIALIZATION_FAILURES:
            return None  # another worker won the race
        raise


def release(session: Session, claim: Claim, state: TaskState, **values: Any) -> None:
    """Leaves the job in `state`, owned by nobody. Raises LostClaimError, which rolls the unit of work back.

    Its end is never earlier than its start, whatever the clock does in between.
    """
    finished_at, started_at = values.get("finished_at"), values.get("started_at")
    if finished_at is not None:
        values["finished_at"] = (
            max(finished_at, started_at) if started_at else no_earlier_than(RunTask.started_at, finished_at)
        )
    if not updated_any(
        session,
        update(RunTask)
        .where(RunTask.id == claim.run_task_id, RunTask.attempt_token == claim.token)
        .values(state=state, attempt_token=None, lease_until=None, **values),
    ):
        raise LostClaimError(str(claim.run_task_id))
