"""Progress of `bassline datasets from-code` on stderr: a bar with the time left on a terminal, lines elsewhere."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from app.commands.progress import time_left
from app.ui.terminal import stderr, visible
from evaluation.from_code.build import TaskResult

_LINE_EVERY_S = 10.0
_TELLING = 4
"""Functions after which the time left is estimated."""


class FromCodeProgress:
    """Shows the three parts of the work: the tests run, inputs are drawn, functions are checked."""

    def __init__(self, folder: str, limit_s: float) -> None:
        self._folder = folder
        self._limit_s = limit_s
        self._console = stderr()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[facts]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._shown = self._bar.add_task("preparing", total=None, facts="")
        self._began = self._printed = time.monotonic()
        self._part, self._first = "", 0

    def __enter__(self) -> FromCodeProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def note(self, text: str) -> None:
        """Prints a line."""
        self._console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def recording(self, command: Sequence[str], seconds: float) -> None:
        """The tests have run for `seconds`; at 0 prints which command will run, and how."""
        if seconds == 0.0:
            self.note(
                f"runs the project's own code in {self._folder}, with your rights and outside the sandbox: "
                f"{shlex.join(command)}"
            )
        facts = f"at most {time_left(self._limit_s - seconds)}"
        self._bar.update(self._shown, description="recording", total=self._limit_s, completed=seconds, facts=facts)
        self._line(f"recording: {seconds:.0f} s, {facts}")

    def generating(self, done: int, total: int) -> None:
        """Inputs are drawn for `done` functions."""
        self._advance("drawing inputs", done, total)

    def checking(self, done: int, total: int, made: TaskResult | None) -> None:
        """`done` functions are checked."""
        if made is None and done:
            self.note(f"resumed: {done} of {total} functions are done")
        self._advance("checking", done, total)

    def _advance(self, part: str, done: int, total: int) -> None:
        if part != self._part:
            self._part, self._first, self._began = part, done, time.monotonic()
        fresh = done - self._first
        remaining = (time.monotonic() - self._began) / fresh * (total - done) if fresh >= _TELLING else None
        facts = f"{done} of {total} functions, {time_left(remaining)}"
        self._bar.update(self._shown, description=part, total=total, completed=done, facts=facts)
        self._line(f"{part}: {facts}")

    def _line(self, text: str) -> None:
        if self._bar.disable and time.monotonic() - self._printed >= _LINE_EVERY_S:
            self._printed = time.monotonic()
            self.note(text)
