"""Where a run stands, for people: in line, loading its model or at work, and how much of it was decoded and graded."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.events import event_types
from app.events.bus import FIRST, EventBus
from app.runs.models import Run, RunTask
from app.runs.repository import Progress
from app.runs.results import Figures
from app.states import OPEN_RUN_STATES, RunState, TaskState
from app.ui.units import ordinal

UNTOUCHED = (TaskState.QUEUED, TaskState.CANCELLED, TaskState.SKIPPED)


@dataclass(frozen=True)
class Standing:
    """What a run does now: `state` is a class of its badge, `words` stand on it, `note` says more or is empty."""

    state: str
    words: str
    note: str = ""


@dataclass(frozen=True)
class Coverage:
    """Tasks of an ended run: `selected` were asked for, `decoded` have samples, `graded` are what its figures cover.

    `left` are what resuming it works; `failed` of them gave up with an error; `faults` are out because of the sandbox.
    """

    selected: int
    decoded: int
    graded: int
    left: int
    failed: int
    faults: int

    @property
    def whole(self) -> bool:
        """Nothing is missing from the figures."""
        return self.graded >= self.selected


def standing(session: Session, bus: EventBus, run: Run, progress: Progress) -> Standing:
    """What the run does now.

    A worker takes a task before it loads the model, which may take a minute; tokens come once it is loaded.
    """
    if run.state not in OPEN_RUN_STATES or progress.decoded:
        return Standing(run.state, run.state)
    events = bus.read(run.id, FIRST, 0.0)
    if events and events[-1].type == event_types.LOADING:
        return Standing("running", "loading model", str(events[-1].data["message"]))
    if any(count for state, count in progress.by_state.items() if state not in UNTOUCHED):
        if any(event.type == event_types.TOKENS for event in events):
            return Standing(run.state, run.state)
        return Standing("running", "starting", "A worker has taken the first task and prepares the model.")
    ahead = _ahead(session, run)
    if ahead:
        earlier = "1 earlier run has" if ahead == 1 else f"{ahead} earlier runs have"
        return Standing("queued", f"waiting in line ({ordinal(ahead + 1)})", f"{earlier} not ended.")
    return Standing("queued", "queued" if run.state is RunState.QUEUED else "waiting")


def untouched(session: Session, runs: Collection[Run]) -> set[uuid.UUID]:
    """Ids of the open runs among these of which no worker has taken a task yet."""
    waiting = {run.id for run in runs if run.state in OPEN_RUN_STATES}
    touched = session.scalars(
        select(RunTask.run_id).where(RunTask.run_id.in_(waiting), RunTask.state.not_in(UNTOUCHED)).distinct()
    )
    return waiting - set(touched) if waiting else waiting


def coverage(run: Run, tasks: Sequence[RunTask], figures: Figures) -> Coverage:
    """How much of the run was decoded and graded; a run without tests counts what was decoded as graded."""
    return Coverage(
        selected=run.n_tasks,
        decoded=sum(bool(task.samples) for task in tasks),
        graded=figures.tasks,
        left=sum(task.state != TaskState.FINISHED for task in tasks),
        failed=sum(task.state == TaskState.FAILED for task in tasks),
        faults=figures.tasks_sandbox_error,
    )


def _ahead(session: Session, run: Run) -> int:
    earlier = select(func.count()).where(Run.state.in_(OPEN_RUN_STATES), Run.id < run.id)
    return session.scalar(earlier) or 0
