"""What a verify costs on this machine, by the number of packed tokens: the other half of choosing a draft length.

A GPU reads its weights as fast for 16 tokens as for 8; a CPU without matrix units is out of arithmetic soon after. So
the curve is measured when an engine is loaded, in a second or two, and not assumed.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
_TIME_LIMIT_S = 4.0
_REPEATS = 3


@dataclass(frozen=True, slots=True)
class VerifyCost:
    """Seconds of a verify at each measured size; between sizes linear, beyond the last by the last slope."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    def __call__(self, n_tokens: int) -> float:
        """Return the expected seconds of a verify of `n_tokens` packed tokens."""
        if len(self.sizes) == 1:
            return self.seconds[0]
        right = min(max(bisect_left(self.sizes, n_tokens), 1), len(self.sizes) - 1)
        (x0, x1), (y0, y1) = self.sizes[right - 1 : right + 1], self.seconds[right - 1 : right + 1]
        return y0 + (y1 - y0) * (max(n_tokens, self.sizes[0]) - x0) / (x1 - x0)


def measure(verify: Callable[[int], None]) -> VerifyCost:
    """Time `verify(n_tokens)` at growing sizes, the best of a few each, for a few seconds at most."""
    started = time.perf_counter()
    seconds: list[float] = []
    for size in SIZES:
        verify(size)  # first use of a shape pays for itself
        runs = []
        for _ in range(_REPEATS):
            before = time.perf_counter()
            verify(size)
            runs.append(time.perf_counter() - before)
        # More tokens never cost less: a dip is noise.
        seconds.append(max(min(runs), seconds[-1] if seconds else 0.0))
        if time.perf_counter() - started > _TIME_LIMIT_S:
            break
    return VerifyCost(SIZES[: len(seconds)], tuple(seconds))


def marginal(cost: VerifyCost) -> list[tuple[int, float]]:
    """Return (size, seconds per extra token up to it): where drafting stops being nearly free."""
    pairs = zip(pairwise(cost.sizes), pairwise(cost.seconds), strict=True)
    return [(b, (y1 - y0) / (b - a)) for (a, b), (y0, y1) in pairs]
