"""The state of a run in words: waiting, loading its model, or running."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.events import event_types
from app.core.events.bus import BEFORE_FIRST, EventBus
from app.core.states import OPEN_RUN_STATES, UNTOUCHED_TASK_STATES, RunState
from app.runs.models import Run
from app.runs.quiet import describe_quiet_wait
from app.runs.repository import RunProgress


@dataclass(frozen=True)
class RunStatus:
    """The current state of a run: CSS class and text of its badge, and a longer note or nothing."""

    state: str
    words: str
    note: str = ""


def describe_run_status(bus: EventBus, run: Run, progress: RunProgress) -> RunStatus:
    """The current state of the run.

    A worker takes a task before it loads the model, which may take a minute; tokens come once it is loaded.
    """
    if run.state in OPEN_RUN_STATES and (why := describe_quiet_wait([run])) is not None:
        return RunStatus("running", "waiting", why)
    if run.state not in OPEN_RUN_STATES or progress.decoded:
        return RunStatus(run.state, run.state)
    events = bus.read(run.id, BEFORE_FIRST, 0.0)
    if events and events[-1].type == event_types.LOADING:
        return RunStatus("running", "loading model", str(events[-1].data["message"]))
    if any(count for state, count in progress.by_state.items() if state not in UNTOUCHED_TASK_STATES):
        return RunStatus(run.state, run.state)
    return RunStatus("queued", "queued" if run.state is RunState.QUEUED else "waiting")
