"""The layers that carry a state from token to token, over ragged rows in PyTorch: a recurrence and a short convolution.

Gated delta nets, Mamba and Mamba-2 are one recurrence. A head has a state S [K, V]; a token brings a query q and a key
k [K], a value v [V], and a decay of S, one number or one for each of the K:

    S <- decay * S
    w  = (v - k S) * beta      with a delta rule; w = v without one
    S <- S + k w
    out = q S

A round may be rejected in part, so `run_tokens` leaves the states as they are and returns what each token writes, w.
Once it is known how many tokens of a row stay, `advance_states` repeats the updates of these alone, with the same
operations in the same order. So a state is the same bits whatever was drafted, and a round keeps a few numbers of each
token instead of a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch

from kernels.upload import upload


class TokenInputs(NamedTuple):
    """What N packed tokens bring, in float32. H heads share G queries and keys, neighbours first."""

    q: torch.Tensor  # [N, G, K]
    k: torch.Tensor  # [N, G, K]
    v: torch.Tensor  # [N, H, V]
    decay: torch.Tensor  # [N, H], or [N, H, K] where each part of a key has its own
    beta: torch.Tensor | None  # [N, H] of a delta rule


class StateWrites(NamedTuple):
    """What the states need to be advanced over N packed tokens."""

    k: torch.Tensor  # [N, G, K]
    decay: torch.Tensor  # [N, H] or [N, H, K]
    w: torch.Tensor  # [N, H, V]


class TokenSteps(NamedTuple):
    """The tokens in the order of their steps: all first ones of rows, then all second ones.

    `slot` int64 [R'] are the slots of the rows that have tokens, longest first; `token` int64 [N] indexes the packed
    tokens; step t has `sizes[t]` tokens, which are of the first rows.
    """

    slot: torch.Tensor
    token: torch.Tensor
    sizes: list[int]


@dataclass(frozen=True)
class StateRows:
    """Row r has `counts[r]` packed tokens from `starts[r]` on, and its state is in slot `slots[r]`."""

    slots: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    device: torch.device

    @cached_property
    def slot(self) -> torch.Tensor:
        """The slots, int64 [R]."""
        return upload(torch.tensor(self.slots, dtype=torch.int64), self.device)

    @cached_property
    def spans(self) -> torch.Tensor:
        """The first tokens and the numbers of tokens, int64 [2, R]."""
        return upload(torch.tensor([self.starts, self.counts], dtype=torch.int64), self.device)

    @cached_property
    def by_step(self) -> TokenSteps:
        """The tokens of the rows in the order of their steps."""
        order = sorted((r for r, n in enumerate(self.counts) if n), key=lambda r: -self.counts[r])
        longest = self.counts[order[0]] if order else 0
        steps = [[self.starts[r] + t for r in order if self.counts[r] > t] for t in range(longest)]
        slot = torch.tensor([self.slots[r] for r in order], dtype=torch.int64)
        token = torch.tensor([token for step in steps for token in step], dtype=torch.int64)
        return TokenSteps(upload(slot, self.device), upload(token, self.device), [len(step) for step in steps])

    @cached_property
    def _windows(self) -> dict[tuple[int, bool], torch.Tensor]:
        return {}

    def find_windows(self, width: int, *, at_end: bool = False) -> torch.Tensor:
        """Return indices of a convolution's inputs, int64 [width, N], into the pasts [R * n_past], then the tokens.

        A row's past is the `n_past` inputs before its tokens, of which a window of `width` needs one less than it is
        wide. With `at_end`, the ones of the token that follows each row: [width - 1, R], its past from then on.
        """
        key = width, at_end
        if key not in self._windows:
            n_past = width - 1
            first_token = len(self.slots) * n_past  # the tokens come after the pasts of all rows
            ends = [(r, t) for r, n in enumerate(self.counts) for t in ([n] if at_end else range(n))]
            index = [
                [
                    first_token + self.starts[r] + offset
                    if (offset := t - n_past + tap) >= 0  # from the first token of row r
                    else (r + 1) * n_past + offset
                    for r, t in ends
                ]
                for tap in range(n_past if at_end else width)
            ]
            self._windows[key] = upload(torch.tensor(index, dtype=torch.int64), self.device)
        return self._windows[key]


def run_tokens(states: torch.Tensor, rows: StateRows, tokens: TokenInputs) -> tuple[torch.Tensor, StateWrites]:
    """Return what each token reads, [N, H, V], and what it writes; `states` [S, H, K, V] stay as they are."""
    slot, at, sizes = rows.by_step
    state, group = states[slot], tokens.v.shape[1] // tokens.k.shape[1]
    query, key = (torch.split(_expand_heads(part[at], group), sizes) for part in (tokens.q, tokens.k))
    value, decay = torch.split(tokens.v[at], sizes), torch.split(_expand_decay(tokens.decay[at]), sizes)
    beta = None if tokens.beta is None else torch.split(tokens.beta[at][..., None], sizes)
    out, written = [], []
    for t, n in enumerate(sizes):
        live, new = state[:n], value[t]
        live.mul_(decay[t])
        if beta is not None:
            new = (new - (live * key[t]).sum(dim=2)) * beta[t]
        live.addcmul_(key[t], new[:, :, None])
        out.append((live * query[t]).sum(dim=2))
        written.append(new)
    read, w = (torch.zeros_like(tokens.v).index_copy_(0, at, torch.cat(parts)) for parts in (out, written))
    return read, StateWrites(tokens.k, tokens.decay, w)


def advance_states(states: torch.Tensor, rows: StateRows, writes: StateWrites) -> None:
    """Advance the states [S, H, K, V] of the rows over their tokens, as `run_tokens` computed them."""
    slot, at, sizes = rows.by_step
    state, group = states[slot], writes.w.shape[1] // writes.k.shape[1]
    key, decay, new = (
        torch.split(part, sizes)
        for part in (_expand_heads(writes.k[at], group), _expand_decay(writes.decay[at]), writes.w[at][:, :, None])
    )
    for t, n in enumerate(sizes):
        state[:n].mul_(decay[t]).addcmul_(key[t], new[t])
    states[slot] = state


def convolve(
    states: torch.Tensor, rows: StateRows, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Return the causal convolution [N, C] of `x` [N, C] with `weight` [C, width], each token after its row's past.

    `states` [S, width - 1, C] have the pasts, and stay as they are. Each sum is in the order of the taps, in float32.
    """
    inputs = torch.cat([states[rows.slot].flatten(0, 1), x])
    taps = weight.float().T
    out = torch.zeros_like(x, dtype=torch.float32) if bias is None else bias.float().expand(x.shape).clone()
    for tap, at in zip(taps, rows.find_windows(len(taps)), strict=True):
        out.addcmul_(inputs[at].float(), tap)
    return out.to(weight.dtype)


def advance_pasts(states: torch.Tensor, rows: StateRows, x: torch.Tensor) -> None:
    """Let the pasts [S, width - 1, C] of the rows end with their tokens of `x` [N, C]."""
    inputs = torch.cat([states[rows.slot].flatten(0, 1), x])
    at = rows.find_windows(states.shape[1] + 1, at_end=True)
    states[rows.slot] = inputs[at].transpose(0, 1)


def select_accepted_rows(rows: StateRows, sources: Sequence[tuple[int, int, int]]) -> StateRows:
    """Return rows of the same packed tokens: of each (slot, row of `rows`, number of its tokens that stay)."""
    return StateRows(
        tuple(slot for slot, _, _ in sources),
        tuple(rows.starts[r] for _, r, _ in sources),
        tuple(n for _, _, n in sources),
        rows.device,
    )


def _expand_heads(part: torch.Tensor, group: int) -> torch.Tensor:
    """Return queries or keys [R, G, K] of all heads, over the values of a state: [R, H, K, 1]."""
    return (part if group == 1 else part.repeat_interleave(group, dim=1))[..., None]


def _expand_decay(decay: torch.Tensor) -> torch.Tensor:
    """Return decays [R, H] or [R, H, K] over a state [R, H, K, V]."""
    return decay[..., None] if decay.dim() == 3 else decay[..., None, None]
