"""Reading a prompt, one chunk after the other; deadlines are checked between two chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile
from typing import NamedTuple

import torch

from decoding.costs.timer import CostEstimator

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
    """Seconds that a prefill will take: its next chunk, and at least all that is left of it."""

    next_s: float
    rest_s: float


class PrefillPart:
    """One model's part of a prefill: `read(a, b)` for each `chunk` of the tokens from `start` to before `end`.

    `timer` learns what a token costs. `readable`, if given, says how many of the tokens can be read by now: for a part
    that reads what the parts before it have left.
    """

    def __init__(
        self,
        read: Callable[[int, int], None],
        start: int,
        end: int,
        chunk: int,
        timer: CostEstimator,
        device: torch.device,
        readable: Callable[[], int] | None = None,
    ) -> None:
        self._read = read
        self._at = start
        self._end = end
        self._chunk = chunk
        self._timer = timer
        self._device = device
        self._readable = readable

    @property
    def n_readable(self) -> int:
        """The tokens that can be read now."""
        end = self._end if self._readable is None else min(self._end, self._readable())
        return max(end - self._at, 0)

    @property
    def next_s(self) -> float:
        """The expected seconds of the next chunk."""
        return self._n_next * self._timer.expected_s

    @property
    def _n_next(self) -> int:
        return next((end - start for start, end in split_span(self._at, self._at + self.n_readable, self._chunk)), 0)

    @property
    def rest_s(self) -> float:
        """The seconds that all of its tokens take at least."""
        return max(self._end - self._at, 0) * self._timer.least_s

    def step(self) -> None:
        """Read the next chunk."""
        n, started = self._n_next, time.perf_counter()
        self._read(self._at, self._at + n)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        if n >= _FEWEST_TO_TIME:
            self._timer.observe((time.perf_counter() - started) / n)
        self._at += n


class Prefill:
    """A prompt that one model after the other reads. A caller that stops early has a row that it must drop."""

    def __init__(self, *readings: PrefillPart) -> None:
        self._readings = readings

    def then(self, other: Prefill) -> Prefill:
        """Return this prefill with another one after it."""
        return Prefill(*self._readings, *other._readings)

    @property
    def _left(self) -> Sequence[PrefillPart]:
        """The parts from the one whose turn it is."""
        return tuple(dropwhile(lambda each: not each.n_readable, self._readings))

    @property
    def is_done(self) -> bool:
        """Whether the prompt is read."""
        return not self._left

    @property
    def ahead(self) -> PrefillEstimate:
        """The seconds of the next chunk, and at least of all that is left in all models."""
        left = self._left
        return PrefillEstimate(left[0].next_s if left else 0.0, sum(each.rest_s for each in left))

    @torch.inference_mode()
    def step(self) -> None:
        """Read the next chunk; nothing if none is left."""
        if left := self._left:
            left[0].step()

    def finish(self) -> None:
        """Read all that is left."""
        while not self.is_done:
            self.step()
