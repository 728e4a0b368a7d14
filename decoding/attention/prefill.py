"""Reading a prompt, one chunk after the other; deadlines are checked between two chunks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from decoding.costs.timer import CostTimer

# The size of a chunk depends on the device alone, never on the time left, so that a text does not depend on the speed
# of the machine.
PREFILL_CHUNK = {"cpu": 64, "cuda": 512}
# The cost of a token in a shorter chunk says little about others.
_FEWEST_TO_TIME = 16


class PrefillEstimate(NamedTuple):
    """Seconds that a prefill will take: its next chunk, and at least all that is left of it."""

    next_s: float
    rest_s: float


class Reading:
    """One model's part of a prefill: `read(a, b)` for each `chunk` of the tokens from `start` to before `end`.

    `timer` learns what a token costs. `known_end`, asked once the parts before are done, says where the tokens end that
    can be read then.
    """

    def __init__(
        self,
        read: Callable[[int, int], None],
        start: int,
        end: int,
        chunk: int,
        timer: CostTimer,
        device: torch.device,
        known_end: Callable[[], int] | None = None,
    ) -> None:
        self._read = read
        self._at = start
        self._end = end
        self._chunk = chunk
        self._timer = timer
        self._device = device
        self._known_end = known_end

    def begin(self) -> bool:
        """Return whether there is something left to read, all parts before this one done."""
        if self._known_end is not None:
            self._end = min(self._end, self._known_end())
        return self._at < self._end

    @property
    def _n_next(self) -> int:
        return min(self._chunk, self._end - self._at)

    @property
    def ahead(self) -> PrefillEstimate:
        """The seconds of the next chunk, and of all that is left."""
        left = max(self._end - self._at, 0)
        return PrefillEstimate(self._n_next * self._timer.expected_s, left * self._timer.least_s)

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
    """A prompt that is being read by one model after the other. One that is not read to its end has to be dropped."""

    def __init__(self, *readings: Reading) -> None:
        self._readings = list(readings)

    def then(self, other: Prefill) -> Prefill:
        """Return this prefill with another one behind it."""
        return Prefill(*self._readings, *other._readings)

    @property
    def is_done(self) -> bool:
        """Whether the prompt is read."""
        while self._readings and not self._readings[0].begin():
            self._readings.pop(0)
        return not self._readings

    @property
    def ahead(self) -> PrefillEstimate:
        """The seconds of the next chunk, and at least of all that is left; to be asked before `step`."""
        if self.is_done:
            return PrefillEstimate(0.0, 0.0)
        return PrefillEstimate(self._readings[0].ahead.next_s, sum(each.ahead.rest_s for each in self._readings))

    @torch.inference_mode()
    def step(self) -> None:
        """Read the next chunk; nothing if none is left."""
        if not self.is_done:
            self._readings[0].step()

    def finish(self) -> None:
        """Read all that is left."""
        while not self.is_done:
            self.step()
