"""Live progress on stderr: bars on a terminal, lines elsewhere; and the progress of a run."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from app.cli.common import number
from app.core.context import Context
from app.core.events import event_types
from app.core.events.bus import Event
from app.core.states import RunState, TaskState
from app.core.terminal import stderr, visible
from app.runs.models import Run
from app.runs.repository import Progress as Counts
from app.runs.repository import get_run, progress

LEFT_TASK = (TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELLED)
PACE_S = 600.0  # the time left is estimated from the pace of the last ten minutes


class Bars:
    """Bars on a terminal, which are gone at the end; elsewhere lines. A bar has a name, facts and the time it took."""

    def __init__(self) -> None:
        self._console = stderr()
        self.on_terminal = self._console.is_terminal
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[facts]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self.on_terminal,
            speed_estimate_period=PACE_S,
        )
        self._shown: dict[uuid.UUID | None, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bars.stop()

    def note(self, text: str) -> None:
        """Prints a line."""
        self._console.print(text, soft_wrap=True)

    def show(self, name: str, done: float, total: float, facts: str, key: uuid.UUID | None = None) -> None:
        """Shows `done` of `total` in the bar of this key, which is added if it is new."""
        if key not in self._shown:
            self._shown[key] = self._bars.add_task(name, facts="")
        self._bars.update(
            self._shown[key], description=visible(name), completed=done, total=total, facts=visible(facts)
        )


class PartsBar(Bars):
    """One bar, for one part of the work after the other; elsewhere a line every `every_s` seconds."""

    def __init__(self, every_s: float) -> None:
        super().__init__()
        self._every_s, self._printed = every_s, time.monotonic()
        self._part = ""
        self._bar = self._bars.add_task("preparing", total=None, facts="")

    def begin(self, part: str, done: float, total: float) -> None:
        """The next part begins; `done` of `total` were finished before."""
        self._part = part
        self._bars.reset(self._bar, description=part, total=total, facts="")
        self._bars.update(self._bar, completed=done)

    def advance_to(self, part: str, done: float, total: float) -> str:
        """`done` of the part is finished. Returns the time left at its pace, in words."""
        if part != self._part:
            self.begin(part, done, total)
        self._bars.update(self._bar, completed=min(done, total))
        return time_left(self._bars.tasks[self._bar].time_remaining)

    def tell(self, facts: str) -> None:
        """Shows facts about the part."""
        self._bars.update(self._bar, facts=visible(facts))
        if not self.on_terminal and time.monotonic() - self._printed >= self._every_s:
            self._printed = time.monotonic()
            self.note(f"{self._part}: {facts}")


def show(ctx: Context, run_id: uuid.UUID, events: Iterable[Event | None]) -> None:
    """Follows the run's events, the last of which is its end. KeyboardInterrupt passes through."""
    run, counts = _read(ctx, run_id)
    with Bars() as bars:
        bars.show("preparing", 0, run.n_tasks, "checking sandbox and dataset")
        for event in filter(None, events):
            if not bars.on_terminal:
                if line := _line(ctx, run, event):
                    bars.note(line)
            elif event.type == event_types.LOADING:
                bars.show("preparing", counts.decoded, run.n_tasks, event.data["message"])
            elif event.type in (event_types.TASK, event_types.GRADED, event_types.TOKENS):
                run, counts = _read(ctx, run_id) if event.type == event_types.TASK else (run, counts)
                _update(bars, run, counts, event)


def _update(bars: Bars, run: Run, counts: Counts, event: Event) -> None:
    k = min(counts.decoded + counts.by_state.get(TaskState.DECODING, 0), run.n_tasks)
    rate = counts.tokens_per_s
    if event.type == event_types.TOKENS and event.data["elapsed_s"]:
        rate = event.data["tokens"] / event.data["elapsed_s"]
    bars.show(f"task {k} of {run.n_tasks}", counts.decoded, run.n_tasks, _facts(counts, rate))


def _line(ctx: Context, run: Run, event: Event) -> str | None:
    if event.type == event_types.LOADING:
        return str(event.data["message"])
    if event.type == event_types.STATE and event.data["state"] == RunState.RUNNING:
        return f"run {run.id}"
    if event.type != event_types.TASK or event.data["state"] not in LEFT_TASK:
        return None
    run, counts = _read(ctx, run.id)
    done = sum(counts.by_state.get(state, 0) for state in LEFT_TASK)
    failed = event.data["state"] == TaskState.FAILED
    facts = f"failed: {event.data['error']}" if failed else _facts(counts, counts.tokens_per_s)
    return f"task {done} of {run.n_tasks}  {event.data['task_id']}  {facts}"


def _facts(counts: Counts, tokens_per_s: float | None) -> str:
    passed = f"{counts.samples} samples, {counts.passed} passed"
    return f"{passed}, {number(tokens_per_s)} tokens/s, {time_left(counts.remaining_s)}"


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
