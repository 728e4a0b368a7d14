"""Progress of `bassline datasets from-code`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from app.commands.progress import PartsBar, time_left
from evaluation.from_code.build import TaskResult


class FromCodeProgress(PartsBar):
    """Shows the three parts of the work: the tests run, inputs are drawn, functions are checked."""

    def __init__(self, folder: str, limit_s: float) -> None:
        super().__init__(every_s=10.0)
        self._folder = folder
        self._limit_s = limit_s

    def recording(self, command: Sequence[str], seconds: float) -> None:
        """The tests have run for `seconds`; at 0 prints which command will run, and how."""
        if seconds == 0.0:
            self.note(
                f"runs the project's own code in {self._folder}, with your rights and outside the sandbox: "
                f"{shlex.join(command)}"
            )
        self.advance_to("recording", seconds, self._limit_s)
        self.tell(f"{seconds:.0f} s, at most {time_left(self._limit_s - seconds)}")

    def generating(self, done: int, total: int) -> None:
        """Inputs are drawn for `done` functions."""
        self._advance("drawing inputs", done, total)

    def checking(self, done: int, total: int, made: TaskResult | None) -> None:
        """`done` functions are checked."""
        if made is None and done:
            self.note(f"resumed: {done} of {total} functions are done")
        self._advance("checking", done, total)

    def _advance(self, part: str, done: int, total: int) -> None:
        left = self.advance_to(part, done, total)
        self.tell(f"{done} of {total} functions, {left}")
