"""Which draws a sample makes: its key, and a stream for each role. The noise itself is in `kernels/noise.py`."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import torch

from kernels.noise import gumbel, mix, signed, uniform

__all__ = ["Role", "gumbel", "row_key", "uniform"]


class Role(IntEnum):
    """What a draw is for; each role has a stream of its own."""

    SAMPLE = 0
    DRAFT = 1
    ACCEPT = 2
    RESIDUAL = 3


@lru_cache(maxsize=4096)
def row_key(seed: int, sample: int) -> int:
    """Return the 64-bit key of a sample's stream, as a signed integer."""
    return int(mix(mix(torch.tensor(signed(seed))) + signed(sample * 0x9E3779B97F4A7C15 + 1)))
