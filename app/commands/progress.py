"""Live progress of a run on stderr: a bar on a terminal, a line per task elsewhere."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from app.commands.common import number
from app.context import Context
from app.events import event_types
from app.events.bus import Event
from app.runs.models import Run
from app.runs.repository import Progress as Counts
from app.runs.repository import get_run, progress
from app.states import RunState, TaskState
from app.ui.terminal import stderr, visible

LEFT_TASK = (TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELLED)


def show(ctx: Context, run_id: uuid.UUID, events: Iterable[Event | None]) -> None:
    """Follows the run's events, the last of which is its end. KeyboardInterrupt passes through."""
    run, counts = _read(ctx, run_id)
    console = stderr()
    if not console.is_terminal:
        for event in events:
            if event is not None and (line := _line(ctx, run, event)):
                console.print(line, soft_wrap=True)
        return
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        shown = bar.add_task("preparing", total=run.n_tasks, facts="checking sandbox and dataset")
        for event in events:
            if event is None:
                continue
            if event.type == event_types.LOADING:
                bar.update(shown, description="model", facts=visible(event.data["message"]))
            elif event.type in (event_types.TASK, event_types.GRADED, event_types.TOKENS):
                run, counts = _read(ctx, run_id) if event.type == event_types.TASK else (run, counts)
                _update(bar, shown, run, counts, event)


def _update(bar: Progress, shown: TaskID, run: Run, counts: Counts, event: Event) -> None:
    k = min(counts.decoded + counts.by_state.get(TaskState.DECODING, 0), run.n_tasks)
    rate = counts.tokens_per_s
    if event.type == event_types.TOKENS and event.data["elapsed_s"]:
        rate = event.data["tokens"] / event.data["elapsed_s"]
    facts = (
        f"{counts.samples} samples, {counts.passed} passed, {number(rate)} tokens/s, {time_left(counts.remaining_s)}"
    )
    bar.update(
        shown, description=f"task {k} of {run.n_tasks}", total=run.n_tasks, completed=counts.decoded, facts=facts
    )


def _line(ctx: Context, run: Run, event: Event) -> str | None:
    if event.type == event_types.LOADING:
        return str(event.data["message"])
    if event.type == event_types.STATE and event.data["state"] == RunState.RUNNING:
        return f"run {run.id}"
    if event.type != event_types.TASK or event.data["state"] not in LEFT_TASK:
        return None
    run, counts = _read(ctx, run.id)
    done = sum(counts.by_state.get(state, 0) for state in LEFT_TASK)
    if event.data["state"] == TaskState.FAILED:
        return f"task {done} of {run.n_tasks}  {event.data['task_id']}  failed: {event.data['error']}"
    return (
        f"task {done} of {run.n_tasks}  {event.data['task_id']}  {counts.samples} samples, {counts.passed} passed, "
        f"{number(counts.tokens_per_s)} tokens/s, {time_left(counts.remaining_s)}"
    )


def time_left(remaining_s: float | None) -> str:
    """The estimate in words."""
    if remaining_s is None:
        return "time left not known yet"
    minutes, seconds = divmod(round(remaining_s), 60)
    return f"{minutes}:{seconds:02d} left"


def _read(ctx: Context, run_id: uuid.UUID) -> tuple[Run, Counts]:
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        return run, progress(session, run)
