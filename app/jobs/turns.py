"""Which run is next: a message says that work waits, and the waiting runs take turns (docs/jobs.md)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session, defer

from app.context import Context
from app.jobs.claims import Step
from app.runs import enqueue, routing
from app.runs.models import Run, RunTask
from app.states import RunKind, RunState
from app.studies import schedule
from app.studies.models import StudyArm

if TYPE_CHECKING:
    from decoding.config import EngineConfig

TURN_S = 60.0  # engines in memory and a batch are served this long before another is loaded, which costs seconds
TRIES = 20  # other workers may claim the chosen job first, a few times in a row
REMEMBERED = 1000
_LONG = (Run.provenance, Run.figures, Run.excluded, Run.command)  # columns that this decision does not need
T = TypeVar("T")
ConfigOf = Callable[[Run], "EngineConfig"]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A run with a job that waits for a step, and how many of its jobs are being worked.

    A study waits as one: `key` is its id, `run` the arm whose turn it is, and `job` that arm's job. Of an ordinary run
    any waiting job will do.
    """

    key: uuid.UUID
    run: Run
    at_work: int
    job: uuid.UUID | None = None


class Turns:
    """When one worker last served which run, for one step.

    Next is the run with the fewest jobs at work anywhere; among those, the one that this worker has not served for the
    longest time. For TURN_S after an engine was loaded, runs whose engines are in memory are preferred.
    """

    def __init__(self) -> None:
        self._served: dict[uuid.UUID, float] = {}
        self._loaded_at = 0.0

    def choose(
        self, waiting: Sequence[_Waiting], config_of: ConfigOf | None, held: Collection[EngineConfig]
    ) -> _Waiting:
        """The next of `waiting`. With `config_of`, loading another than the `held` engines waits for TURN_S."""
        now = time.monotonic()
        if config_of is not None and now - self._loaded_at < TURN_S:
            waiting = [w for w in waiting if config_of(w.run) in held] or waiting
        chosen = min(waiting, key=lambda w: (w.at_work, self._served.get(w.key, 0.0), w.key))
        if len(self._served) >= REMEMBERED:
            self._served = {w.key: self._served[w.key] for w in waiting if w.key in self._served}
        self._served[chosen.key] = now
        if config_of is not None and config_of(chosen.run) not in held:
            self._loaded_at = now
        return chosen


def claim_next(
    ctx: Context, run_task_id: uuid.UUID, step: Step, claim: Callable[[uuid.UUID], T | None], config_of: ConfigOf | None
) -> T | None:
    """What `claim` makes of the job whose turn it is when a message names `run_task_id`; None if none waits.

    A run pinned to this process, and a completion, for which a user waits, are worked as their messages come. A
    completion that only others may serve is sent on to them: a worker declared its model after the message was sent.
    """
    if step is Step.DECODE and routing.belongs_to_others(ctx, run_task_id):
        enqueue.decode(ctx, [run_task_id], RunKind.COMPLETION)
        return None
    turns = ctx.turns.setdefault(step.name, Turns())
    for _ in range(TRIES):
        with ctx.database.read() as session:
            chosen, alone = _chosen(ctx, session, turns, run_task_id, step, config_of)
        if chosen is None:
            return None
        claimed = claim(chosen)
        if claimed is not None or alone:
            return claimed
    return None


def another_waits(ctx: Context, run: Run, step: Step) -> bool:
    """Whether jobs of another run wait for a step that any worker may do."""
    with ctx.database.read() as session:
        return session.scalar(select(Run.id).where(Run.id != run.id, _takes_turns(step)).limit(1)) is not None


def _chosen(
    ctx: Context, session: Session, turns: Turns, run_task_id: uuid.UUID, step: Step, config_of: ConfigOf | None
) -> tuple[uuid.UUID | None, bool]:
    """(job to claim, whether no other would do); the job is None if none waits."""
    named = session.execute(
        select(RunTask.run_id, RunTask.state, Run.pinned_worker, Run.kind, StudyArm.study_id)
        .join(RunTask.run)
        .outerjoin(StudyArm, StudyArm.run_id == Run.id)
        .where(RunTask.id == run_task_id)
    ).one_or_none()
    if named is not None and (named.pinned_worker is not None or named.kind is RunKind.COMPLETION):
        if named.study_id is not None and step is Step.DECODE:
            of_study = schedule.next_job(session, named.study_id)
            return (of_study.run_task_id if of_study else None), False
        return run_task_id, True
    waiting = _waiting(session, step)
    if not waiting:
        return None, True
    chosen = turns.choose(waiting, config_of, ctx.engines.held())
    if chosen.job is not None:
        return chosen.job, False
    if named is not None and named.run_id == chosen.run.id and named.state == step.waiting:
        return run_task_id, False
    of_the_run = select(RunTask.id).where(RunTask.run_id == chosen.run.id, RunTask.state == step.waiting)
    return session.scalar(of_the_run.order_by(RunTask.position).limit(1)) or run_task_id, False


def _waiting(session: Session, step: Step) -> list[_Waiting]:
    at_work = dict(
        session.execute(
            select(RunTask.run_id, func.count()).where(RunTask.state == step.working).group_by(RunTask.run_id)
        ).all()
    )
    rows = session.execute(
        select(Run, StudyArm.study_id)
        .outerjoin(StudyArm, StudyArm.run_id == Run.id)
        .where(_takes_turns(step))
        .options(*map(defer, _LONG))
    ).all()
    if step is not Step.DECODE:
        return [_Waiting(run.id, run, at_work.get(run.id, 0)) for run, _ in rows]
    ids = {study_id for _, study_id in rows if study_id is not None}
    studies = {study_id: schedule.next_job(session, study_id, here_only=True) for study_id in ids}
    return [
        *(_Waiting(run.id, run, at_work.get(run.id, 0)) for run, study_id in rows if study_id is None),
        *(_Waiting(study_id, job.run, 0, job.run_task_id) for study_id, job in studies.items() if job is not None),
    ]


def _takes_turns(step: Step) -> ColumnElement[bool]:
    waits = select(RunTask.id).where(RunTask.run_id == Run.id, RunTask.state == step.waiting).exists()
    return and_(Run.state == RunState.RUNNING, Run.pinned_worker.is_(None), Run.kind != RunKind.COMPLETION, waits)
