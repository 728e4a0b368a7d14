"""Who owns a job: claim, fence, release. The row decides, the broker only rings (docs/jobs.md).

A job is one task of a run and has two steps, each claimed on its own: decode (queued -> decoding -> decoded) and
grade (decoded -> grading -> finished). A claim is one conditional UPDATE that writes a fresh attempt token; every
later write carries `WHERE attempt_token = mine`, so a worker that lost its lease can change nothing.
"""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.context import Context
from app.datasets.models import Task
from app.db.database import updated_any
from app.db.ids import new_id
from app.db.types import utcnow
from app.runs.models import Run, RunTask
from app.states import RunKind, RunState, TaskState

MAX_ATTEMPTS = 3


class Step(enum.Enum):
    """The two steps of a job: (claimed from, state while claimed)."""

    DECODE = (TaskState.QUEUED, TaskState.DECODING)
    GRADE = (TaskState.DECODED, TaskState.GRADING)

    @property
    def waiting(self) -> TaskState:
        """The state a job waits in for this step."""
        return self.value[0]

    @property
    def working(self) -> TaskState:
        """The state of a job claimed for this step."""
        return self.value[1]


class LostClaim(Exception):  # noqa: N818 (reads as what happened)
    """The job belongs to someone else by now; whatever was computed for it is dropped."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write to a job until the lease runs out. `position` is the place of the task in its run, from 0."""

    run_task_id: uuid.UUID
    run_id: uuid.UUID
    task_id: str
    position: int
    token: uuid.UUID
    step: Step
    attempt: int
    kind: RunKind


def claim(ctx: Context, run_task_id: uuid.UUID, step: Step) -> Claim | None:
    """Takes the job for one step; None if it is not waiting for it (a late or second message: nothing to do)."""
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
                    lease_until=lease_end(ctx, now),
                )
                .returning(RunTask.run_id, RunTask.attempt),
                execution_options={"synchronize_session": False},
            ).one_or_none()
            if won is None:
                return None
            kind, task_id, position = session.execute(
                select(Run.kind, Task.task_id, RunTask.position)
                .select_from(RunTask)
                .join(RunTask.run)
                .join(RunTask.task)
                .where(RunTask.id == run_task_id)
            ).one()
            return Claim(run_task_id, won.run_id, task_id, position, token, step, won.attempt, kind)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in ("40001", "40P01"):
            return None  # the other side of the race won
        raise


def fenced_update(session: Session, held: Claim, **values: Any) -> None:
    """Writes to the job if it is still ours. Raises LostClaim (which rolls the unit of work back) if not."""
    if not updated_any(
        session,
        update(RunTask).where(RunTask.id == held.run_task_id, RunTask.attempt_token == held.token).values(**values),
    ):
        raise LostClaim(str(held.run_task_id))


def put_down(session: Session, held: Claim, state: TaskState, **values: Any) -> None:
    """Leaves the job in `state`, owned by nobody. Raises LostClaim."""
    fenced_update(session, held, state=state, attempt_token=None, lease_until=None, **values)


def give_back(ctx: Context, held: Claim) -> None:
    """Returns an unfinished job to where it waited, as if it had not been claimed."""
    with ctx.database.session() as session:
        put_down(session, held, held.step.waiting, attempt=held.attempt - 1, started_at=None)


def fail(ctx: Context, held: Claim, sentence: str) -> None:
    """Ends the job as failed, with the reason."""
    with ctx.database.session() as session:
        put_down(session, held, TaskState.FAILED, error=sentence, finished_at=utcnow())


def retry_or_fail(ctx: Context, held: Claim, sentence: str) -> bool:
    """After a fault of ours: back to waiting for another attempt, or failed after the third. True if waiting."""
    if held.attempt >= MAX_ATTEMPTS:
        fail(ctx, held, sentence)
        return False
    with ctx.database.session() as session:
        put_down(session, held, held.step.waiting, error=sentence)
    return True


def lease_end(ctx: Context, now: dt.datetime) -> dt.datetime:
    """Until when a worker that proves at `now` that it is alive owns its job."""
    return now + dt.timedelta(seconds=ctx.settings.lease_s)
