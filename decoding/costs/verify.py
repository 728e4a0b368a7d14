"""Measures the time of a verify on this machine by its number of packed tokens.

On a GPU, 16 tokens take as long as 8, because reading the weights takes most of the time. A CPU without matrix units
is limited by arithmetic from a few tokens on. So the curve is measured when an engine is loaded, which takes seconds.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
_TIME_LIMIT_S = 4.0
_REPEATS = 3


@dataclass(frozen=True, slots=True)
class VerifyCost:
    """The seconds of a verify at each measured size: linear between sizes, and with the last slope beyond the last."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    def __call__(self, n_tokens: int) -> float:
        """Return the expected seconds of a verify of `n_tokens` packed tokens."""
        if len(self.sizes) == 1:
            return self.seconds[0]
        right = min(max(bisect_left(self.sizes, n_tokens), 1), len(self.sizes) - 1)
        (x0, x1), (y0, y1) = self.sizes[right - 1 : right + 1], self.seconds[right - 1 : right + 1]
        return y0 + (y1 - y0) * (max(n_tokens, self.sizes[0]) - x0) / (x1 - x0)


def measure_verify_cost(verify: Callable[[int], None]) -> VerifyCost:
    """Time `verify(n_tokens)` at growing sizes, a few runs each, for a few seconds; keep the fastest run of each."""
    started = time.perf_counter()
    seconds: list[float] = []
    for size in SIZES:
        verify(size)  # the first run of a shape includes its setup
        runs = []
        for _ in range(_REPEATS):
            before = time.perf_counter()
            verify(size)
            runs.append(time.perf_counter() - before)
        # More tokens never take less time: a lower measurement is noise.
        seconds.append(max(min(runs), seconds[-1] if seconds else 0.0))
        if time.perf_counter() - started > _TIME_LIMIT_S:
            break
    return VerifyCost(SIZES[: len(seconds)], tuple(seconds))
