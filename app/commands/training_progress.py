"""Progress of a drafter's training on stderr: a bar with the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from app.ui.terminal import stderr, visible

_LINE_EVERY_S = 20.0


class TrainingProgress:
    """Shows how a training goes, and stops it at Ctrl-C or SIGTERM at its next safe point; a second one ends it now."""

    def __init__(self) -> None:
        self._console = stderr()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[facts]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._shown = self._bar.add_task("preparing", total=None, facts="")
        self._name, self._total = "", 1.0
        self._began = self._printed = time.monotonic()
        self._stopping = False

    def __enter__(self) -> TrainingProgress:
        self._before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def note(self, text: str) -> None:
        """Prints a line."""
        self._console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def stage(self, name: str, total: float) -> None:
        """A part of the work begins."""
        self._name, self._total, self._began = name, total, time.monotonic()
        self._bar.reset(self._shown, description=name, total=total, facts="")
        if self._bar.disable:
            self.note(name)

    def advance(self, done: float, facts: str) -> None:
        """`done` of the part is finished."""
        self._bar.update(self._shown, completed=min(done, self._total), facts=facts)
        now = time.monotonic()
        if self._bar.disable and now - self._printed >= _LINE_EVERY_S and done:
            self._printed = now
            left = (now - self._began) * max(self._total - done, 0) / done
            self.note(f"{self._name}: {facts}, about {left / 60:.0f} min left")

    def should_stop(self) -> bool:
        """Whether to stop at the next safe point."""
        return self._stopping

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        self.note("stopping at the next safe point")
        signal.signal(number, self._before[signal.Signals(number)])
