"""The state of a run in words: waiting in line, loading its model or running, and how much is decoded and graded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.events import event_types
from app.events.bus import FIRST, EventBus
from app.runs.models import Run, RunTask
from app.runs.repository import Progress
from app.runs.results import Figures
from app.runs.task_repository import open_runs_before
from app.states import OPEN_RUN_STATES, UNTOUCHED_TASK_STATES, RunState, TaskState
from app.ui.units import ordinal


@dataclass(frozen=True)
class RunStatus:
    """The current state of a run: CSS class and text of its badge, and a longer note or nothing."""

    state: str
    words: str
    note: str = ""


@dataclass(frozen=True)
class Coverage:
    """How many tasks of a run are how far."""

    selected: int  # asked for, after exclusion
    decoded: int  # have samples
    graded: int  # covered by the figures
    left: int  # resuming would run these
    failed: int  # of these, ended with an error
    faults: int  # left out, because the sandbox failed on them

    @property
    def whole(self) -> bool:
        """Nothing is missing from the figures."""
        return self.graded >= self.selected


def run_status(session: Session, bus: EventBus, run: Run, progress: Progress) -> RunStatus:
    """The current state of the run.

    A worker takes a task before it loads the model, which may take a minute; tokens come once it is loaded.
    """
    if run.state not in OPEN_RUN_STATES or progress.decoded:
        return RunStatus(run.state, run.state)
    events = bus.read(run.id, FIRST, 0.0)
    if events and events[-1].type == event_types.LOADING:
        return RunStatus("running", "loading model", str(events[-1].data["message"]))
    if any(count for state, count in progress.by_state.items() if state not in UNTOUCHED_TASK_STATES):
        if any(event.type == event_types.TOKENS for event in events):
            return RunStatus(run.state, run.state)
        return RunStatus("running", "starting", "A worker has taken the first task and prepares the model.")
    ahead = open_runs_before(session, run)
    if ahead:
        earlier = "1 earlier run has" if ahead == 1 else f"{ahead} earlier runs have"
        return RunStatus("queued", f"waiting in line ({ordinal(ahead + 1)})", f"{earlier} not ended.")
    return RunStatus("queued", "queued" if run.state is RunState.QUEUED else "waiting")


def coverage(run: Run, tasks: Sequence[RunTask], figures: Figures) -> Coverage:
    """How much of the run was decoded and graded; without tests, decoded tasks count as graded."""
    return Coverage(
        selected=run.n_tasks,
        decoded=sum(bool(task.samples) for task in tasks),
        graded=figures.tasks,
        left=sum(task.state != TaskState.FINISHED for task in tasks),
        failed=sum(task.state == TaskState.FAILED for task in tasks),
        faults=figures.tasks_sandbox_error,
    )
