"""Progress of fetching a model: messages for the caller, with bytes, rate and time left."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

WINDOW_S = 10.0
POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Progress:
    """One progress message; `str()` formats it as a line for a terminal. Bytes are None in stages that do not count
    them.
    """

    stage: str  # `wait` (for another process), `probe`, `download`, `check`, `convert` or `ready`
    message: str
    done_bytes: int | None = None
    total_bytes: int | None = None
    bytes_per_s: float | None = None  # over the last ten seconds
    seconds_left: float | None = None  # at that rate

    def __str__(self) -> str:
        if self.done_bytes is None or not self.total_bytes:
            return self.message
        line = f"{self.message}: {format_bytes(self.done_bytes)} of {format_bytes(self.total_bytes)}"
        if self.bytes_per_s and self.seconds_left is not None:
            line += f", {format_bytes(self.bytes_per_s)}/s, {self.seconds_left:.0f} s left"
        return line


OnProgress = Callable[[Progress], None]


def format_bytes(n: float) -> str:
    """Return `n` bytes in decimal units, such as `491 MB`."""
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}"
        n /= 1000
    return f"{n:.2f} GB"


class Meter:
    """Reports how many of `total_bytes` are done, with rate and time left."""

    def __init__(self, stage: str, message: str, total_bytes: int, on_progress: OnProgress | None) -> None:
        self.stage, self.message, self.total_bytes, self._on_progress = stage, message, total_bytes, on_progress
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, done_bytes: int) -> None:
        """Report that `done_bytes` are done so far."""
        now, done_bytes = time.monotonic(), min(done_bytes, self.total_bytes)
        self._seen.append((now, done_bytes))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        (start, first), rate = self._seen[0], None
        if now > start and done_bytes > first:
            rate = (done_bytes - first) / (now - start)
        left = (self.total_bytes - done_bytes) / rate if rate else None
        if self._on_progress:
            self._on_progress(
                Progress(self.stage, self.message, done_bytes, self.total_bytes, bytes_per_s=rate, seconds_left=left)
            )

    @contextmanager
    def watching(self, folder: Path, *, base: int = 0, at_most: int | None = None) -> Iterator[None]:
        """Inside the block, report `base` plus the bytes under `folder`, which count up to `at_most`, as they grow.

        A second thread sends the reports; it has ended when the block is left.
        """
        over = threading.Event()

        def watch() -> None:
            while not over.wait(POLL_S):
                grown = count_folder_bytes(folder)
                self.at(base + (grown if at_most is None else min(grown, at_most)))

        thread = threading.Thread(target=watch, name="model-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def count_folder_bytes(folder: Path) -> int:
    """Return the bytes of all files under `folder`. Files and folders that are removed meanwhile count as 0."""
    total = 0
    for parent, _, names in os.walk(folder):  # skips folders that it cannot open, where Path.rglob raises
        for name in names:
            with suppress(OSError):
                status = Path(parent, name).lstat()
                total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total
