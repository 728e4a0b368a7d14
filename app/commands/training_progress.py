"""Progress of a drafter's training, which Ctrl-C stops at the next safe point."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self

from app.commands.progress import PartsBar


class TrainingProgress(PartsBar):
    """Shows how a training goes, and stops it at Ctrl-C or SIGTERM at its next safe point; a second one ends it now."""

    def __init__(self) -> None:
        super().__init__(every_s=20.0)
        self._total = 1.0
        self._stopping = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        return super().__enter__()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stage(self, name: str, total: float) -> None:
        """A part of the work begins."""
        self._total = total
        self.begin(name, 0, total)
        if not self.on_terminal:
            self.note(name)

    def advance(self, done: float, facts: str) -> None:
        """`done` of the part is finished."""
        left = self.advance_to(self._part, done, self._total)
        self.tell(f"{facts}, {left}")

    def should_stop(self) -> bool:
        """Whether to stop at the next safe point."""
        return self._stopping

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        self.note("stopping at the next safe point")
        signal.signal(number, self._before[signal.Signals(number)])
