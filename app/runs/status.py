"""The state of a run in words: waiting in line, loading its model, or running."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.core.events import event_types
from app.core.events.bus import BEFORE_FIRST, EventBus
from app.core.states import OPEN_RUN_STATES, UNTOUCHED_TASK_STATES, RunState
from app.runs.models import Run
from app.runs.quiet import describe_quiet_wait
from app.runs.repository import RunProgress
from app.runs.task_repository import count_earlier_open_runs
from app.web.ui.units import format_ordinal


@dataclass(frozen=True)
class RunStatus:
    """The current state of a run: CSS class and text of its badge, and a longer note or nothing."""

    state: str
    words: str
    note: str = ""


def describe_run_status(session: Session, bus: EventBus, run: Run, progress: RunProgress) -> RunStatus:
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
        if any(event.type == event_types.TOKENS for event in events):
            return RunStatus(run.state, run.state)
        return RunStatus("running", "starting", "A worker has taken the first task and prepares the model.")
    ahead = count_earlier_open_runs(session, run)
    if ahead:
        earlier = "1 earlier run has" if ahead == 1 else f"{ahead} earlier runs have"
        return RunStatus("queued", f"waiting in line ({format_ordinal(ahead + 1)})", f"{earlier} not ended.")
    return RunStatus("queued", "queued" if run.state is RunState.QUEUED else "waiting")
