"""The acceptance step as one kernel: accept, draw the residual or the bonus token, without a host read.

Both rules of `decoding/acceptance/`, with the same noise bit for bit (`kernels/noise.py`). One program per
sample walks its positions until the first draft token that does not stand, so the work is that of the tokens emitted.
Distributions are sparse: ids that can be drawn and their log-probabilities, -inf where a row has fewer.
"""

from __future__ import annotations

import torch

from kernels.availability import jit, jit_for_any, next_power_of_two, require, tl
from kernels.noise import gumbel_of, role_offset, state_at, uniform_of
from kernels.reference import NO_TOKEN

_MAX_BLOCK = 1024


def coupled(
    ids: torch.Tensor,  # int64 [N, C]
    logp: torch.Tensor,  # float32 [N, C]
    at: torch.Tensor,  # int64 [S, T]
    position: torch.Tensor,  # int64 [S, T]
    draft: torch.Tensor,  # int64 [S, T - 1]
    keys: torch.Tensor,  # int64 [S]
    role: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (accepted int64 [S], emitted int64 [S, T]) of the Gumbel-coupled rule (arXiv 2408.07978).

    Sample s's token at step t has the distribution in row `at[s, t]` and the absolute position `position[s, t]`; the
    target's token is the argmax of log p + Gumbel noise. `accepted` counts the drafts that equal it, up to the first
    that does not; `emitted` holds the target's tokens up to index `accepted`, NO_TOKEN behind.
    """
    return _launch(ids, logp, at, position, draft, keys, None, None, role, coupled_rule=True)


def maximal(
    ids: torch.Tensor,  # int64 [N, C]
    logp: torch.Tensor,  # float32 [N, C]
    at: torch.Tensor,  # int64 [S, T]
    position: torch.Tensor,  # int64 [S, T]
    draft: torch.Tensor,  # int64 [S, T - 1], NO_TOKEN where nothing was proposed
    keys: torch.Tensor,  # int64 [S]
    q: tuple[torch.Tensor, torch.Tensor] | None,  # ids int64 and logp float32 [S * (T - 1), Cq]
    accept_role: int,
    residual_role: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (accepted, emitted) as `coupled` does, of speculative sampling (arXiv 2211.17192).

    A draft stands with probability min(1, p / q); at the first that does not, the token is drawn from (p - q)+; after
    the last from p. `q` holds what the drafts were drawn from, one row per sample and step; None says that each
    draft was a certainty.
    """
    if q is not None:
        # Sorted, so that the kernel finds an id by bisection, however wide the distributions are.
        q_ids, order = q[0].sort(dim=1)
        q = (q_ids, q[1].gather(1, order))
    return _launch(ids, logp, at, position, draft, keys, q, accept_role, residual_role, coupled_rule=False)


def _launch(
    ids: torch.Tensor,
    logp: torch.Tensor,
    at: torch.Tensor,
    position: torch.Tensor,
    draft: torch.Tensor,
    keys: torch.Tensor,
    q: tuple[torch.Tensor, torch.Tensor] | None,
    accept_role: int | None,
    draw_role: int,
    *,
    coupled_rule: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    require(ids.device)
    S, T = at.shape
    C = ids.shape[1]
    assert ids.shape == logp.shape
    assert position.shape == (S, T)
    assert draft.shape == (S, T - 1)
    assert keys.shape == (S,)
    assert q is None or q[0].shape == q[1].shape == (S * (T - 1), q[0].shape[1])
    # An expanded row of ids (the whole vocabulary) need not be written out once per position.
    assert ids.stride(1) == logp.stride(1) == 1
    accepted = at.new_empty(S)
    emitted = at.new_full((S, T), NO_TOKEN)
    q_ids, q_logp = (ids, logp) if q is None else q
    _accept[(S,)](
        accepted,
        emitted,
        ids,
        logp,
        at.contiguous(),
        position.contiguous(),
        draft.contiguous(),
        keys.contiguous(),
        q_ids,
        q_logp,
        T,
        C,
        q_ids.shape[1],
        ids.stride(0),
        logp.stride(0),
        COUPLED=coupled_rule,
        HAS_Q=q is not None,
        ACCEPT_OFFSET=role_offset(accept_role or 0),
        DRAW_OFFSET=role_offset(draw_role),
        N_BISECT=q_ids.shape[1].bit_length(),
        BLOCK=min(next_power_of_two(C), _MAX_BLOCK),
        num_warps=4,
    )
    return accepted, emitted


@jit_for_any("T", "C", "Cq", "ids_stride", "logp_stride")
def _accept(
    accepted,  # int64 [S]
    emitted,  # int64 [S, T]
    ids,  # int64 [N, C]
    logp,  # float32 [N, C]
    at,  # int64 [S, T]
    position,  # int64 [S, T]
    draft,  # int64 [S, T - 1]
    keys,  # int64 [S]
    q_ids,  # int64 [S * (T - 1), Cq], ascending
    q_logp,  # float32 [S * (T - 1), Cq]
    T,
    C,
    Cq,
    ids_stride,
    logp_stride,
    COUPLED: tl.constexpr,
    HAS_Q: tl.constexpr,
    ACCEPT_OFFSET: tl.constexpr,
    DRAW_OFFSET: tl.constexpr,
    N_BISECT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One sample's positions, until a draft token does not stand."""
    s = tl.program_id(0).to(tl.int64)
    key = tl.load(keys + s)
    n_standing = tl.zeros((), tl.int64)
    going = tl.full((), 1, tl.int1)
    for t in range(T):
        if going:
            row = tl.load(at + s * T + t)
            place = tl.load(position + s * T + t)
            p_ids, p_logp = ids + row * ids_stride, logp + row * logp_stride
            step = s * (T - 1) + t
            token = tl.load(draft + step, mask=t < T - 1, other=-1)
            noise = state_at(key, place, DRAW_OFFSET)
            if COUPLED:
                chosen = _draw(p_ids, p_logp, C, noise, BLOCK)
                going = chosen == token
            else:
                q_at = q_ids + step * Cq
                q_logp_at = q_logp + step * Cq
                proposed = token >= 0
                chosen = token
                # u < p / q, without dividing by a q that rounded to zero
                u = uniform_of(state_at(key, place, ACCEPT_OFFSET))
                q_token = _q_of(token, token, proposed, q_at, q_logp_at, Cq, HAS_Q, N_BISECT)
                going = proposed & (u * q_token < _p_of(token, p_ids, p_logp, C, BLOCK))
                if not going:
                    chosen = _draw_residual(
                        p_ids, p_logp, C, noise, token, proposed, q_at, q_logp_at, Cq, HAS_Q, N_BISECT, BLOCK
                    )
            tl.store(emitted + s * T + t, chosen)
            n_standing += going.to(tl.int64)
    tl.store(accepted + s, n_standing)


@jit
def _draw(ids, logp, C, noise, BLOCK: tl.constexpr):
    """Return the id with the highest log p + Gumbel noise."""
    best = tl.full((), float("-inf"), tl.float64)
    best_id = tl.zeros((), tl.int64)
    for start in range(0, C, BLOCK):
        x = start + tl.arange(0, BLOCK)
        token = tl.load(ids + x, mask=x < C, other=-1)
        score = tl.load(logp + x, mask=x < C, other=float("-inf")).to(tl.float64) + gumbel_of(noise, token)
        best, best_id = _better(score, token, best, best_id, BLOCK)
    return best_id


@jit
def _draw_residual(
    ids, logp, C, noise, draft, proposed, q_ids, q_logp, Cq,
    HAS_Q: tl.constexpr, N_BISECT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return a draw from (p - q)+, or from p where nothing was proposed or rounding left no mass."""
    best = tl.full((), float("-inf"), tl.float64)
    best_id = tl.zeros((), tl.int64)
    rest = best
    rest_id = best_id
    # NOTE a block's mask and a scalar one cannot be joined by & in Triton 3.9's interpreter.
    n_drafted_from = tl.where(proposed, C, 0)
    for start in range(0, C, BLOCK):
        x = start + tl.arange(0, BLOCK)
        token = tl.load(ids + x, mask=x < C, other=-1)
        log_p = tl.load(logp + x, mask=x < C, other=float("-inf"))
        gumbel = gumbel_of(noise, token)
        best, best_id = _better(log_p.to(tl.float64) + gumbel, token, best, best_id, BLOCK)
        left = tl.exp(log_p) - _q_of(token, draft, x < n_drafted_from, q_ids, q_logp, Cq, HAS_Q, N_BISECT)
        log_left = tl.where(left > 0, tl.log(tl.where(left > 0, left, 1.0)), float("-inf"))
        rest, rest_id = _better(log_left.to(tl.float64) + gumbel, token, rest, rest_id, BLOCK)
    return tl.where(proposed & (rest > float("-inf")), rest_id, best_id)


@jit
def _better(score, token, best, best_id, BLOCK: tl.constexpr):
    """Return the highest score so far and its token; the first of equals wins, and what is no number never does."""
    score = tl.where(score > float("-inf"), score, float("-inf"))
    top = tl.max(score, 0)
    top_id = tl.max(tl.where(tl.arange(0, BLOCK) == tl.argmax(score, 0), token, -1), 0)
    return tl.where(top > best, top, best), tl.where(top > best, top_id, best_id)


@jit
def _p_of(token, ids, logp, C, BLOCK: tl.constexpr):
    """Return the probability of one token, 0 outside the support."""
    found = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        x = start + tl.arange(0, BLOCK)
        here = tl.load(ids + x, mask=x < C, other=-1) == token
        found += tl.where(here, tl.exp(tl.load(logp + x, mask=x < C, other=float("-inf"))), 0.0)
    return tl.sum(found, 0)


@jit
def _q_of(token, draft, wanted, q_ids, q_logp, Cq, HAS_Q: tl.constexpr, N_BISECT: tl.constexpr):
    """Return the draft's probability of each `token`, where `wanted`: by bisection, or one-hot where there is no q."""
    if HAS_Q:
        low = tl.zeros_like(token)
        high = low + Cq
        for _ in range(N_BISECT):
            middle = (low + high) // 2
            less = tl.load(q_ids + middle, mask=wanted & (middle < Cq), other=0) < token
            low = tl.where(less & (low < high), middle + 1, low)
            high = tl.where(less, high, middle)
        inside = wanted & (low < Cq)
        found = inside & (tl.load(q_ids + low, mask=inside, other=-1) == token)
        q = tl.where(found, tl.exp(tl.load(q_logp + low, mask=found, other=float("-inf"))), 0.0)
    else:
        q = tl.where(wanted & (token == draft), 1.0, 0.0)
    return q
