"""Counter-based randomness: each draw is a pure function of (seed, position, role, token), in PyTorch and in kernels.

There is no generator state. A sample's randomness therefore does not depend on the other samples of its batch, on the
number of rounds or on draft lengths. The mixing function is SplitMix64's finalizer (Steele, Lea and Flood, OOPSLA
2014). Integer arithmetic wraps, which gives the same bits on every device; PyTorch has no unsigned 64-bit arithmetic,
so it computes the same bits on signed integers.
"""

from __future__ import annotations

import torch

from kernels.availability import jit, tl

_POSITION = 0xD1342543DE82EF95
_ROLE = 0xA0761D6478BD642F
_TOKEN = 0xE7037ED1A0B428DB


def uniform(
    seeds: torch.Tensor, positions: torch.Tensor, role: int, tokens: torch.Tensor | None = None
) -> torch.Tensor:
    """Return float64 draws in the open interval (0, 1).

    `seeds` and `positions` are int64 [N]; the result is [N], or [N, C] with one draw per id of `tokens` [N, C].
    """
    state = mix(seeds + positions * signed(_POSITION) + signed(role_offset(role)))
    if tokens is not None:
        state = mix(state[:, None] + (tokens + 1) * signed(_TOKEN))
    bits = (state >> 11) & ((1 << 53) - 1)
    return (bits.double() + 0.5) * 2.0**-53


def gumbel(seeds: torch.Tensor, positions: torch.Tensor, role: int, tokens: torch.Tensor) -> torch.Tensor:
    """Return standard Gumbel noise, float64 [N, C], one draw per id of `tokens` [N, C]."""
    return -torch.log(-torch.log(uniform(seeds, positions, role, tokens)))


def role_offset(role: int) -> int:
    """Return the number that a role adds to the state; kernels take it as a constant."""
    return (int(role) + 1) * _ROLE & ((1 << 64) - 1)


def mix(z: torch.Tensor) -> torch.Tensor:
    """Return SplitMix64's finalizer of int64 `z`, any shape."""
    z = (z ^ _shift(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shift(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ _shift(z, 31)


def signed(value: int) -> int:
    """Return the int64 with the low 64 bits of `value`."""
    value &= (1 << 64) - 1
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
def state_at(seed, position, ROLE_OFFSET: tl.constexpr):
    """Return the state of a seed's stream at a position, uint64, from int64 `seed` and `position`."""
    return mix_bits(seed.to(tl.uint64) + position.to(tl.uint64) * 0xD1342543DE82EF95 + ROLE_OFFSET)


@jit
def uniform_of(state):
    """Return a float64 draw in (0, 1)."""
    return ((state >> 11).to(tl.float64) + 0.5) * 1.1102230246251565e-16  # 2 ** -53


@jit
def gumbel_of(state, tokens):
    """Return standard Gumbel noise, float64, one draw per token id (int64)."""
    return -tl.log(-tl.log(uniform_of(mix_bits(state + (tokens + 1).to(tl.uint64) * 0xE7037ED1A0B428DB))))
