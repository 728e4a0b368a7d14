"""Counter-based randomness: every draw is a pure function of (seed, sample, position, role, token).

No generator is advanced, so a sample's randomness does not depend on its batch mates, on the number of rounds or on
how long the drafts were. The mixing function is SplitMix64's finalizer (Steele, Lea and Flood, OOPSLA 2014), in
wrapping int64 arithmetic, which gives the same bits on every device.
"""

from __future__ import annotations

from enum import IntEnum

import torch


class Role(IntEnum):
    """What a draw is for; each role has a stream of its own."""

    SAMPLE = 0
    DRAFT = 1
    ACCEPT = 2
    RESIDUAL = 3


def row_key(seed: int, sample: int) -> int:
    """Return the 64-bit key of a sample's stream, as a signed integer."""
    return int(_mix(_mix(torch.tensor(_signed(seed))) + _signed(sample * 0x9E3779B97F4A7C15 + 1)))


def uniform(
    keys: torch.Tensor, positions: torch.Tensor, role: Role, tokens: torch.Tensor | None = None
) -> torch.Tensor:
    """Return float64 draws in the open interval (0, 1).

    `keys` and `positions` are int64 [N]; the result is [N], or [N, C] with one draw per id of `tokens` [N, C].
    """
    state = _mix(keys + positions * _signed(0xD1342543DE82EF95) + _signed((int(role) + 1) * 0xA0761D6478BD642F))
    if tokens is not None:
        state = _mix(state[:, None] + (tokens + 1) * _signed(0xE7037ED1A0B428DB))
    bits = (state >> 11) & ((1 << 53) - 1)
    return (bits.double() + 0.5) * 2.0**-53


def gumbel(keys: torch.Tensor, positions: torch.Tensor, role: Role, tokens: torch.Tensor) -> torch.Tensor:
    """Return standard Gumbel noise, float64 [N, C], one draw per id of `tokens` [N, C]."""
    return -torch.log(-torch.log(uniform(keys, positions, role, tokens)))


def _mix(z: torch.Tensor) -> torch.Tensor:
    z = (z ^ _shift(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shift(z, 27)) * _signed(0x94D049BB133111EB)
    return z ^ _shift(z, 31)


def _shift(z: torch.Tensor, bits: int) -> torch.Tensor:
    # torch has no unsigned 64-bit shift: mask the copies of the sign bit away.
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value
