"""Which run is next: a message says that work waits, and the waiting runs take turns (docs/jobs.md)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session, defer

from app.context import Context
from app.jobs.claims import Step
from app.runs.models import Run, RunTask
from app.states import RunKind, RunState

if TYPE_CHECKING:
    from decoding.config import EngineConfig

TURN_S = 60.0  # a loaded engine and a batch are kept this long: changing them costs seconds
TRIES = 20  # other workers may claim the chosen job first, a few times in a row
REMEMBERED = 1000
_LONG = (Run.provenance, Run.figures, Run.excluded, Run.command)  # columns that this decision does not need
T = TypeVar("T")
ConfigOf = Callable[[Run], "EngineConfig"]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A run with a job that waits for a step, and how many of its jobs are being worked."""

    run: Run
    at_work: int


class Turns:
    """When one worker last served which run, for one step.

    Next is the run with the fewest jobs at work anywhere; among those, the one that this worker has not served for the
    longest time. Runs whose engine is loaded are preferred for TURN_S.
    """

    def __init__(self) -> None:
        self._served: dict[uuid.UUID, float] = {}
        self._engine: EngineConfig | None = None
        self._since = 0.0

    def choose(self, waiting: Sequence[_Waiting], config_of: ConfigOf | None, held: EngineConfig | None) -> Run:
        """The next run of `waiting`. With `config_of`, a change of the `held` engine waits for the end of its turn."""
        now = time.monotonic()
        if config_of is not None and held is not None and held == self._engine and now - self._since < TURN_S:
            waiting = [w for w in waiting if config_of(w.run) == held] or waiting
        run = min(waiting, key=lambda w: (w.at_work, self._served.get(w.run.id, 0.0), w.run.id)).run
        if len(self._served) >= REMEMBERED:
            self._served = {w.run.id: self._served[w.run.id] for w in waiting if w.run.id in self._served}
        self._served[run.id] = now
        if config_of is not None and config_of(run) != self._engine:
            self._engine, self._since = config_of(run), now
        return run


def claim_next(
    ctx: Context, run_task_id: uuid.UUID, step: Step, claim: Callable[[uuid.UUID], T | None], config_of: ConfigOf | None
) -> T | None:
    """What `claim` makes of the job whose turn it is when a message names `run_task_id`; None if none waits.

    A run pinned to this process, and a completion, for which a user waits, are worked as their messages come.
    """
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
        select(RunTask.run_id, RunTask.state, Run.pinned_worker, Run.kind)
        .join(RunTask.run)
        .where(RunTask.id == run_task_id)
    ).one_or_none()
    if named is not None and (named.pinned_worker is not None or named.kind is RunKind.COMPLETION):
        return run_task_id, True
    waiting = _waiting(session, step)
    if not waiting:
        return None, True
    run = turns.choose(waiting, config_of, ctx.engines.config())
    if named is not None and named.run_id == run.id and named.state == step.waiting:
        return run_task_id, False
    of_the_run = select(RunTask.id).where(RunTask.run_id == run.id, RunTask.state == step.waiting)
    return session.scalar(of_the_run.order_by(RunTask.position).limit(1)) or run_task_id, False


def _waiting(session: Session, step: Step) -> list[_Waiting]:
    at_work = dict(
        session.execute(
            select(RunTask.run_id, func.count()).where(RunTask.state == step.working).group_by(RunTask.run_id)
        ).all()
    )
    runs = session.scalars(select(Run).where(_takes_turns(step)).options(*map(defer, _LONG)))
    return [_Waiting(run, at_work.get(run.id, 0)) for run in runs]


def _takes_turns(step: Step) -> ColumnElement[bool]:
    waits = select(RunTask.id).where(RunTask.run_id == Run.id, RunTask.state == step.waiting).exists()
    return and_(Run.state == RunState.RUNNING, Run.pinned_worker.is_(None), Run.kind != RunKind.COMPLETION, waits)
