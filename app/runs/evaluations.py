"""How evaluations are worked: the waiting runs take turns, task by task."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session, defer

from app.core.broker import queues
from app.core.context import Context
from app.core.states import RunState, Step
from app.runs.models import EVALUATION, Run, RunTask
from app.runs.policy import Policy, Waiting, runs_of

QUEUES = {Step.DECODE: queues.GPU_BATCH, Step.GRADE: queues.EXEC}
LONG_COLUMNS = (Run.provenance, Run.figures, Run.excluded, Run.command)  # no choice of a next job needs them


class EvaluationPolicy(Policy):
    """Any waiting job of the run will do. Runs pinned to a process are worked as their messages come."""

    name = EVALUATION
    queues = QUEUES

    def eligible(self, ctx: Context, session: Session, step: Step) -> Sequence[Waiting]:
        """Returns every running evaluation with a job that waits for the step."""
        query = select(Run).where(runs_of(self), takes_turns(step)).options(*map(defer, LONG_COLUMNS))
        runs = session.scalars(query).all()
        in_progress = jobs_in_progress(session, step) if runs else {}
        return [Waiting(run.id, run, in_progress.get(run.id, 0)) for run in runs]


def jobs_in_progress(session: Session, step: Step) -> dict[uuid.UUID, int]:
    """How many jobs of each run workers have claimed for a step."""
    query = select(RunTask.run_id, func.count()).where(RunTask.state == step.working).group_by(RunTask.run_id)
    return dict(session.execute(query).all())


def takes_turns(step: Step) -> ColumnElement[bool]:
    """Whether a running run waits for a step that any worker may do, as a condition over Run."""
    waits = select(RunTask.id).where(RunTask.run_id == Run.id, RunTask.state == step.waiting).exists()
    return and_(Run.state == RunState.RUNNING, Run.pinned_worker.is_(None), waits)
