"""How getting a model tells its caller where it stands."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WINDOW_S = 10.0
POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Progress:
    """One line of news; `str()` of it is fit for a terminal.

    `stage` is `wait` (for another process), `probe`, `download`, `check`, `convert` or `ready`. Bytes are None where
    there is nothing to count; `bytes_per_s` is the rate over the last ten seconds, `seconds_left` follows from it.
    """

    stage: str
    message: str
    done_bytes: int | None = None
    total_bytes: int | None = None
    bytes_per_s: float | None = None
    seconds_left: float | None = None

    def __str__(self) -> str:
        if self.done_bytes is None or not self.total_bytes:
            return self.message
        line = f"{self.message}: {format_bytes(self.done_bytes)} of {format_bytes(self.total_bytes)}"
        if self.bytes_per_s and self.seconds_left is not None:
            line += f", {format_bytes(self.bytes_per_s)}/s, {self.seconds_left:.0f} s left"
        return line


OnProgress = Callable[[Progress], None]


def format_bytes(n: float) -> str:
    """`n` bytes in decimal units, such as `491 MB`."""
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}"
        n /= 1000
    return f"{n:.2f} GB"


class Meter:
    """Reports bytes done out of `total_bytes`, with rate and time left."""

    def __init__(self, stage: str, message: str, total_bytes: int, on_progress: OnProgress | None) -> None:
        self.stage, self.message, self.total_bytes, self._on_progress = stage, message, total_bytes, on_progress
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, done_bytes: int) -> None:
        """Report that `done_bytes` are there."""
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
        """While inside, report the bytes under `folder` (counted up to `at_most`) on top of `base` as they grow.

        The reports come from a second thread, which has ended when the block is left.
        """
        over = threading.Event()

        def watch() -> None:
            while not over.wait(POLL_S):
                grown = folder_bytes(folder)
                self.at(base + (grown if at_most is None else min(grown, at_most)))

        thread = threading.Thread(target=watch, name="model-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def folder_bytes(folder: Path) -> int:
    """Bytes of all files under `folder` at this moment; files that vanish meanwhile count nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink():
                total += path.stat().st_size
        except OSError:
            continue
    return total
