"""The random draws of a sample: its seed, and a stream for each role. The noise itself is in `kernels/noise.py`."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

from kernels.noise import compute_states, draw_gumbel, draw_uniform, find_high_noise_tokens, mix_int, to_int64

__all__ = ["Role", "compute_sample_seed", "compute_states", "draw_gumbel", "draw_uniform", "find_high_noise_tokens"]


class Role(IntEnum):
    """The purpose of a draw; each role has a stream of its own, so that no two purposes share noise."""

    SAMPLE = 0
    DRAFT = 1
    ACCEPT = 2
    RESIDUAL = 3


@lru_cache(maxsize=4096)
def compute_sample_seed(seed: int, sample: int) -> int:
    """Return the 64-bit seed of a sample's streams, as a signed integer, from the request's seed and its index."""
    return to_int64(mix_int(mix_int(seed) + sample * 0x9E3779B97F4A7C15 + 1))
