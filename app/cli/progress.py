"""Live progress on stderr: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from app.core.terminal import escape_control, open_stderr

PACE_S = 600.0  # estimates use the pace of the last ten minutes
LINE_EVERY_S = 10.0


class Bars:
    """Bars on a terminal, gone at the end; elsewhere only its notes. A bar has a name, facts and the time it took."""

    def __init__(self) -> None:
        self._console = open_stderr()
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
        self._shown: dict[str | None, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bars.stop()

    def note(self, text: str) -> None:
        """Prints a line."""
        self._console.print(text, soft_wrap=True)

    def show(self, name: str, done: float, total: float, facts: str, key: str | None = None) -> None:
        """Shows `done` of `total` in the bar of this key, which is added if it is new."""
        if key not in self._shown:
            self._shown[key] = self._bars.add_task(name, facts="")
        self._bars.update(
            self._shown[key], description=escape_control(name), completed=done, total=total, facts=escape_control(facts)
        )


class JobBar(Bars):
    """One bar that shows the parts of a job in turn; without a terminal, a line every LINE_EVERY_S seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._printed = time.monotonic()
        self._part = ""
        self._bar = self._bars.add_task("preparing", total=None, facts="")

    def report(self, done: float, total: float, message: str) -> None:
        """`done` of `total` is finished, 0 if unknown. `message` says of what, and after a colon what else to show."""
        part, _, facts = message.partition(": ")
        if part != self._part:
            self._part = part
            self._bars.reset(self._bar, description=part, completed=int(done), facts="")
        self._bars.tasks[self._bar].total = total or None  # `reset` and `update` keep the old one for None
        self._bars.update(self._bar, completed=min(done, total))
        left = format_time_left(self._bars.tasks[self._bar].time_remaining)
        counts = [f"{done:,.0f} of {total:,.0f}", left] if total else []
        text = ", ".join(filter(None, [*counts[:1], facts, *counts[1:]]))
        self._bars.update(self._bar, facts=escape_control(text))
        if not self.on_terminal and time.monotonic() - self._printed >= LINE_EVERY_S:
            self._printed = time.monotonic()
            self.note(f"{part}: {text}")

    def report_part(self, done: float, total: float, message: str) -> None:
        """The same without what else there is to show, which is only as new as the job's last step."""
        self.report(done, total, message.partition(": ")[0])


def format_time_left(remaining_s: float | None) -> str:
    """The estimate in words."""
    if remaining_s is None:
        return "time left not known yet"
    minutes, seconds = divmod(round(remaining_s), 60)
    return f"{minutes}:{seconds:02d} left"
