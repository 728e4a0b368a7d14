"""Reading a prompt, one chunk after the other; deadlines are checked between two chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile
from typing import NamedTuple

import torch

from decoding.costs import CostEstimator

# The size of a chunk depends on the device alone, never on the time left, so that a text does not depend on the speed
# of the machine.
PREFILL_CHUNK = {"cpu": 64, "cuda": 512}
# The cost of a token in a shorter chunk says little about others.
_FEWEST_TO_TIME = 16


def split_span(start: int, end: int, chunk: int) -> Iterator[tuple[int, int]]:
    """Yield where each chunk from `start` to before `end` begins and ends.

    Chunks end at multiples of their size: where what is known of a prompt ends at one, the others stay as they were.
    """
    while start < end:
        stop = min(start + chunk - start % chunk, end)
        yield start, stop
        start = stop


class PrefillEstimate(NamedTuple):
    """Seconds that a prefill will take: its next chunk, and all that is left of it, as known and at least."""

    next_s: float
    rest_s: float
    least_rest_s: float


class PrefillPart:
    """One model's part of a prefill: `read(row, a, b)` for each `chunk` of the tokens from `start` to before `end`.

    `timer` learns what a token costs. `readable(row)`, if given, says how many of the tokens can be read by now: for a
    part that reads what the parts before it have left.
    """

    def __init__(
        self,
        read: Callable[[int, int, int], None],
        start: int,
        end: int,
        chunk: int,
        timer: CostEstimator,
        device: torch.device,
        readable: Callable[[int], int] | None = None,
    ) -> None:
        self._read = read
        self._at = start
        self._end = end
        self._chunk = chunk
        self._timer = timer
        self._device = device
        self._readable = readable

    def count_readable(self, row: int) -> int:
        """Return how many tokens can be read now."""
        end = self._end if self._readable is None else min(self._end, self._readable(row))
        return max(end - self._at, 0)

    def estimate_next_s(self, row: int) -> float:
        """Return the expected seconds of the next chunk."""
        return self._count_next(row) * self._timer.expected_s

    def _count_next(self, row: int) -> int:
        last = self._at + self.count_readable(row)
        return next((end - start for start, end in split_span(self._at, last, self._chunk)), 0)

    @property
    def n_chunks(self) -> int:
        """The chunks that are left."""
        return -(-self._n_left // self._chunk)

    @property
    def rest_s(self) -> float:
        """The seconds that all of its tokens take."""
        return self._n_left * self._timer.known_s

    @property
    def least_rest_s(self) -> float:
        """The seconds that all of its tokens take at least."""
        return self._n_left * self._timer.least_s

    @property
    def _n_left(self) -> int:
        return max(self._end - self._at, 0)

    def step(self, row: int) -> None:
        """Read the next chunk."""
        n, started = self._count_next(row), time.perf_counter()
        self._read(row, self._at, self._at + n)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        if n >= _FEWEST_TO_TIME:
            self._timer.observe((time.perf_counter() - started) / n)
        self._at += n


class Prefill:
    """A prompt that one model after the other reads, into the row that the caller names: rows move in a batch.

    A caller that stops early has a row that it must drop.
    """

    def __init__(self, *readings: PrefillPart) -> None:
        self._readings = readings

    def then(self, other: Prefill) -> Prefill:
        """Return this prefill with another one after it."""
        return Prefill(*self._readings, *other._readings)

    def _list_left(self, row: int) -> Sequence[PrefillPart]:
        """Return the parts from the one whose turn it is."""
        return tuple(dropwhile(lambda each: not each.count_readable(row), self._readings))

    def is_done(self, row: int) -> bool:
        """Return whether the prompt is read."""
        return not self._list_left(row)

    @property
    def n_chunks(self) -> int:
        """The chunks that are left in all models."""
        return sum(each.n_chunks for each in self._readings)

    def estimate(self, row: int) -> PrefillEstimate:
        """Return the seconds of the next chunk, and of all that is left in all models."""
        left = self._list_left(row)
        return PrefillEstimate(
            left[0].estimate_next_s(row) if left else 0.0,
            sum(part.rest_s for part in left),
            sum(part.least_rest_s for part in left),
        )

    @torch.inference_mode()
    def step(self, row: int) -> None:
        """Read the next chunk; nothing if none is left."""
        if left := self._list_left(row):
            left[0].step(row)

    def finish(self, row: int) -> None:
        """Read all that is left."""
        while not self.is_done(row):
            self.step(row)
