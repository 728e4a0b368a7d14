"""Counter-based randomness: each draw is a pure function of (seed, position, role, token), in PyTorch and in kernels.

There is no generator state. A sample's randomness therefore does not depend on the other samples of its batch, on the
number of rounds or on draft lengths. The mixing function is SplitMix64's finalizer (Steele, Lea and Flood, OOPSLA
2014). Integer arithmetic wraps, which gives the same bits on every device; PyTorch has no unsigned 64-bit arithmetic,
so it computes the same bits on signed integers.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from kernels.availability import jit, tl

_POSITION = 0xD1342543DE82EF95
_ROLE = 0xA0761D6478BD642F
_TOKEN = 0xE7037ED1A0B428DB
_MASK = (1 << 64) - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
# No draw of noise is larger.
_MAX_NOISE = 40.0
# Tokens whose draws are computed at once: they stay in the processor's cache.
_TOKENS_AT_ONCE = 16384


def draw_uniform(
    seeds: torch.Tensor, positions: torch.Tensor, role: int, tokens: torch.Tensor | None = None
) -> torch.Tensor:
    """Return float64 draws in the open interval (0, 1).

    `seeds` and `positions` are int64 [N]; the result is [N], or [N, C] with one draw per id of `tokens` [N, C].
    """
    state = compute_states(seeds, positions, role)
    if tokens is not None:
        state = mix(state[:, None] + (tokens + 1) * to_int64(_TOKEN))
    bits = (state >> 11) & ((1 << 53) - 1)
    return (bits.double() + 0.5) * 2.0**-53


def compute_states(seeds: torch.Tensor, positions: torch.Tensor, role: int) -> torch.Tensor:
    """Return the states of streams at positions, int64 [N], from which their tokens are drawn."""
    return mix(seeds + positions * to_int64(_POSITION) + to_int64(compute_role_offset(role)))


def find_high_noise_tokens(state: int, tokens: NDArray[np.int64], least: float) -> NDArray[np.intp]:
    """Return the indices of all `tokens` [C] whose Gumbel noise at a state is at least `least`, and of a few others.

    That takes a tenth of the time of the noise itself, since it needs no logarithms, and no memory for C draws.
    """
    if not least <= _MAX_NOISE:  # also for NaN, which a broken distribution gives
        return np.empty(0, dtype=np.intp)
    # The least of the 53 random bits with that noise; rounding must not lose a token. The last step of the mixing
    # leaves the upper 31 bits as they are, so it is left out, and these are compared.
    share = -math.expm1(-math.exp(-least))
    bits = max((1 << 53) - math.ceil(share * (1 << 53) * (1 + 1e-9)) - 2, 0)
    lowest = np.uint64((bits << 11) >> 33 << 33)
    ids, offset = tokens.view(np.uint64), np.uint64((state + _TOKEN) & _MASK)
    z, shifted = (np.empty(min(_TOKENS_AT_ONCE, len(ids)), dtype=np.uint64) for _ in range(2))
    found = []
    for at in range(0, len(ids), _TOKENS_AT_ONCE):
        part = ids[at : at + _TOKENS_AT_ONCE]
        a, b = z[: len(part)], shifted[: len(part)]
        np.multiply(part, np.uint64(_TOKEN), out=a)
        np.add(a, offset, out=a)
        for bits_to_shift, factor in ((30, _FIRST), (27, _SECOND)):
            np.right_shift(a, np.uint64(bits_to_shift), out=b)
            np.bitwise_xor(a, b, out=a)
            np.multiply(a, np.uint64(factor), out=a)
        (loud,) = (a >= lowest).nonzero()
        found.append(loud + at)
    return np.concatenate(found)


def draw_gumbel(seeds: torch.Tensor, positions: torch.Tensor, role: int, tokens: torch.Tensor) -> torch.Tensor:
    """Return standard Gumbel noise, float64 [N, C], one draw per id of `tokens` [N, C]."""
    return -torch.log(-torch.log(draw_uniform(seeds, positions, role, tokens)))


def compute_role_offset(role: int) -> int:
    """Return the number that a role adds to the state; kernels take it as a constant."""
    return (int(role) + 1) * _ROLE & _MASK


def mix(z: torch.Tensor) -> torch.Tensor:
    """Return SplitMix64's finalizer of int64 `z`, any shape."""
    z = (z ^ _shift(z, 30)) * to_int64(_FIRST)
    z = (z ^ _shift(z, 27)) * to_int64(_SECOND)
    return z ^ _shift(z, 31)


def mix_int(z: int) -> int:
    """Return SplitMix64's finalizer of the low 64 bits of `z`, unsigned: a tensor of one number takes much longer."""
    z &= _MASK
    z = (z ^ (z >> 30)) * _FIRST & _MASK
    z = (z ^ (z >> 27)) * _SECOND & _MASK
    return z ^ (z >> 31)


def to_int64(value: int) -> int:
    """Return the int64 with the low 64 bits of `value`."""
    value &= _MASK
    return value - (1 << 64) if value >= 1 << 63 else value


def _shift(z: torch.Tensor, bits: int) -> torch.Tensor:
    # PyTorch has no unsigned 64-bit shift: mask away the copies of the sign bit.
    return (z >> bits) & ((1 << (64 - bits)) - 1)


# The same functions for kernels, on uint64 ----------------------------------------------------------------------------


@jit
def mix_bits(z):
    """Return SplitMix64's finalizer of uint64 `z`."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@jit
def compute_state(seed, position, ROLE_OFFSET: tl.constexpr):
    """Return the state of a seed's stream at a position, uint64, from int64 `seed` and `position`."""
    return mix_bits(seed.to(tl.uint64) + position.to(tl.uint64) * 0xD1342543DE82EF95 + ROLE_OFFSET)


@jit
def to_uniform(state):
    """Return a float64 draw in (0, 1)."""
    return ((state >> 11).to(tl.float64) + 0.5) * 1.1102230246251565e-16  # 2 ** -53


@jit
def to_gumbel(state, tokens):
    """Return standard Gumbel noise, float64, one draw per token id (int64)."""
    return -tl.log(-tl.log(to_uniform(mix_bits(state + (tokens + 1).to(tl.uint64) * 0xE7037ED1A0B428DB))))
