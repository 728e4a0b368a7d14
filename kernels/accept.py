"""The acceptance step in one kernel: accept drafts and draw the next token, without a read by the host.

It implements both rules of `decoding/acceptance/` with the same noise, bit for bit (`kernels/noise.py`). One program
per sample steps through its positions up to the first rejected draft token, so that the work grows with the tokens
emitted. Distributions are sparse: the ids that can be drawn and their log-probabilities, padded with -inf.
"""

from __future__ import annotations

import torch

from kernels.availability import jit, jit_unspecialized, next_power_of_two, require_triton, tl
from kernels.noise import compute_role_offset, compute_state, to_gumbel, to_uniform
from kernels.rows import NO_TOKEN

_MAX_BLOCK = 1024


def accept_coupled(
    ids: torch.Tensor,  # int64 [N, C]
    logp: torch.Tensor,  # float32 [N, C]
    dist_row: torch.Tensor,  # int64 [S, T]
    position: torch.Tensor,  # int64 [S, T]
    draft: torch.Tensor,  # int64 [S, T - 1]
    seeds: torch.Tensor,  # int64 [S]
    role: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (accepted int64 [S], emitted int64 [S, T]) of the Gumbel-coupled rule (arXiv 2408.07978).

    The target's distribution of sample s at step t is row `dist_row[s, t]` of `ids` and `logp`, and its token there is
    the argmax of log p + Gumbel noise of `seeds[s]` at `position[s, t]`. `accepted` counts the leading drafts that
    equal the target's tokens. `emitted` holds the target's tokens up to index `accepted`, then NO_TOKEN. Raises
    `KernelError` where Triton does not run.
    """
    return _launch(ids, logp, dist_row, position, draft, seeds, None, None, role, coupled_rule=True)


def accept_maximal(
    ids: torch.Tensor,  # int64 [N, C]
    logp: torch.Tensor,  # float32 [N, C]
    dist_row: torch.Tensor,  # int64 [S, T]
    position: torch.Tensor,  # int64 [S, T]
    draft: torch.Tensor,  # int64 [S, T - 1], NO_TOKEN where nothing was proposed
    seeds: torch.Tensor,  # int64 [S]
    q: tuple[torch.Tensor, torch.Tensor] | None,  # ids int64 and logp float32 [S * (T - 1), Cq]
    accept_role: int,
    residual_role: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (accepted, emitted) as `accept_coupled` does, by the rule of speculative sampling (arXiv 2211.17192).

    A draft is accepted with probability min(1, p / q). At the first rejection the token is drawn from (p - q)+, after
    the last draft from p. `q` holds the distributions of the drafts, one row per sample and step; None if each draft
    had probability 1.
    """
    if q is not None:
        # Sorted ids let the kernel find one by bisection.
        q_ids, order = q[0].sort(dim=1)
        q = (q_ids, q[1].gather(1, order))
    return _launch(ids, logp, dist_row, position, draft, seeds, q, accept_role, residual_role, coupled_rule=False)


def _launch(
    ids: torch.Tensor,
    logp: torch.Tensor,
    dist_row: torch.Tensor,
    position: torch.Tensor,
    draft: torch.Tensor,
    seeds: torch.Tensor,
    q: tuple[torch.Tensor, torch.Tensor] | None,
    accept_role: int | None,
    draw_role: int,
    *,
    coupled_rule: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    require_triton(ids.device)
    S, T = dist_row.shape
    C = ids.shape[1]
    assert ids.shape == logp.shape
    assert position.shape == (S, T)
    assert draft.shape == (S, T - 1)
    assert seeds.shape == (S,)
    assert q is None or q[0].shape == q[1].shape == (S * (T - 1), q[0].shape[1])
    # Row strides may be 0: the ids of the whole vocabulary are one expanded row.
    assert ids.stride(1) == logp.stride(1) == 1
    accepted = dist_row.new_empty(S)
    emitted = dist_row.new_full((S, T), NO_TOKEN)
    q_ids, q_logp = (ids, logp) if q is None else q
    _accept[(S,)](
        accepted,
        emitted,
        ids,
        logp,
        dist_row.contiguous(),
        position.contiguous(),
        draft.contiguous(),
        seeds.contiguous(),
        q_ids,
        q_logp,
        T,
        C,
        q_ids.shape[1],
        ids.stride(0),
        logp.stride(0),
        COUPLED=coupled_rule,
        HAS_Q=q is not None,
        ACCEPT_OFFSET=compute_role_offset(accept_role or 0),
        DRAW_OFFSET=compute_role_offset(draw_role),
        N_BISECT=q_ids.shape[1].bit_length(),
        BLOCK=min(next_power_of_two(C), _MAX_BLOCK),
        num_warps=4,
    )
    return accepted, emitted


@jit_unspecialized("T", "C", "Cq", "ids_stride", "logp_stride")
def _accept(
    accepted_ptr,  # int64 [S]
    emitted_ptr,  # int64 [S, T]
    ids_ptr,  # int64 [N, C]
    logp_ptr,  # float32 [N, C]
    dist_row_ptr,  # int64 [S, T]
    position_ptr,  # int64 [S, T]
    draft_ptr,  # int64 [S, T - 1]
    seeds_ptr,  # int64 [S]
    q_ids_ptr,  # int64 [S * (T - 1), Cq], ascending
    q_logp_ptr,  # float32 [S * (T - 1), Cq]
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
    """Step through one sample's positions, up to the first rejected draft token."""
    s = tl.program_id(0).to(tl.int64)
    seed = tl.load(seeds_ptr + s)
    n_accepted = tl.zeros((), tl.int64)
    accepting = tl.full((), 1, tl.int1)
    for t in range(T):
        if accepting:
            row = tl.load(dist_row_ptr + s * T + t)
            position = tl.load(position_ptr + s * T + t)
            p_ids_ptr, p_logp_ptr = ids_ptr + row * ids_stride, logp_ptr + row * logp_stride
            step = s * (T - 1) + t
            token = tl.load(draft_ptr + step, mask=t < T - 1, other=-1)
            noise = compute_state(seed, position, DRAW_OFFSET)
            if COUPLED:
                chosen = _draw(p_ids_ptr, p_logp_ptr, C, noise, BLOCK)
                accepting = chosen == token
            else:
                step_q_ids_ptr = q_ids_ptr + step * Cq
                step_q_logp_ptr = q_logp_ptr + step * Cq
                proposed = token >= 0
                chosen = token
                # u < p / q as u * q < p: q may have rounded to zero.
                u = to_uniform(compute_state(seed, position, ACCEPT_OFFSET))
                q_token = _get_q(token, token, proposed, step_q_ids_ptr, step_q_logp_ptr, Cq, HAS_Q, N_BISECT)
                accepting = proposed & (u * q_token < _get_p(token, p_ids_ptr, p_logp_ptr, C, BLOCK))
                if not accepting:
                    chosen = _draw_residual(
                        p_ids_ptr, p_logp_ptr, C, noise, token, proposed, step_q_ids_ptr, step_q_logp_ptr, Cq,
                        HAS_Q, N_BISECT, BLOCK,
                    )  # fmt: skip
            tl.store(emitted_ptr + s * T + t, chosen)
            n_accepted += accepting.to(tl.int64)
    tl.store(accepted_ptr + s, n_accepted)


@jit
def _draw(ids_ptr, logp_ptr, C, noise, BLOCK: tl.constexpr):
    """Return the id with the highest log p + Gumbel noise."""
    best = tl.full((), float("-inf"), tl.float64)
    best_id = tl.zeros((), tl.int64)
    for start in range(0, C, BLOCK):
        x = start + tl.arange(0, BLOCK)
        token = tl.load(ids_ptr + x, mask=x < C, other=-1)
        score = tl.load(logp_ptr + x, mask=x < C, other=float("-inf")).to(tl.float64) + to_gumbel(noise, token)
        best, best_id = _keep_better(score, token, best, best_id, BLOCK)
    return best_id


@jit
def _draw_residual(
    ids_ptr, logp_ptr, C, noise, draft, proposed, q_ids_ptr, q_logp_ptr, Cq,
    HAS_Q: tl.constexpr, N_BISECT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return a draw from (p - q)+, or from p where nothing was proposed or rounding left no mass."""
    best = tl.full((), float("-inf"), tl.float64)
    best_id = tl.zeros((), tl.int64)
    rest = best
    rest_id = best_id
    # NOTE Triton 3.9's interpreter cannot join a block mask and a scalar condition with &.
    n_with_q = tl.where(proposed, C, 0)
    for start in range(0, C, BLOCK):
        x = start + tl.arange(0, BLOCK)
        token = tl.load(ids_ptr + x, mask=x < C, other=-1)
        log_p = tl.load(logp_ptr + x, mask=x < C, other=float("-inf"))
        gumbel = to_gumbel(noise, token)
        best, best_id = _keep_better(log_p.to(tl.float64) + gumbel, token, best, best_id, BLOCK)
        left = tl.exp(log_p) - _get_q(token, draft, x < n_with_q, q_ids_ptr, q_logp_ptr, Cq, HAS_Q, N_BISECT)
        log_left = tl.where(left > 0, tl.log(tl.where(left > 0, left, 1.0)), float("-inf"))
        rest, rest_id = _keep_better(log_left.to(tl.float64) + gumbel, token, rest, rest_id, BLOCK)
    return tl.where(proposed & (rest > float("-inf")), rest_id, best_id)


@jit
def _keep_better(score, token, best, best_id, BLOCK: tl.constexpr):
    """Return the highest score so far and its token. The first of equal scores wins; NaN never does."""
    score = tl.where(score > float("-inf"), score, float("-inf"))
    top = tl.max(score, 0)
    top_id = tl.max(tl.where(tl.arange(0, BLOCK) == tl.argmax(score, 0), token, -1), 0)
    return tl.where(top > best, top, best), tl.where(top > best, top_id, best_id)


@jit
def _get_p(token, ids_ptr, logp_ptr, C, BLOCK: tl.constexpr):
    """Return the probability of one token, 0 if it is not among `ids`."""
    p = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        x = start + tl.arange(0, BLOCK)
        here = tl.load(ids_ptr + x, mask=x < C, other=-1) == token
        p += tl.where(here, tl.exp(tl.load(logp_ptr + x, mask=x < C, other=float("-inf"))), 0.0)
    return tl.sum(p, 0)


@jit
def _get_q(token, draft, wanted, q_ids_ptr, q_logp_ptr, Cq, HAS_Q: tl.constexpr, N_BISECT: tl.constexpr):
    """Return the draft's probability of each `token` where `wanted`: by bisection, or one-hot without q."""
    if HAS_Q:
        low = tl.zeros_like(token)
        high = low + Cq
        for _ in range(N_BISECT):
            middle = (low + high) // 2
            less = tl.load(q_ids_ptr + middle, mask=wanted & (middle < Cq), other=0) < token
            low = tl.where(less & (low < high), middle + 1, low)
            high = tl.where(less, high, middle)
        inside = wanted & (low < Cq)
        matches = inside & (tl.load(q_ids_ptr + low, mask=inside, other=-1) == token)
        q = tl.where(matches, tl.exp(tl.load(q_logp_ptr + low, mask=matches, other=float("-inf"))), 0.0)
    else:
        q = tl.where(wanted & (token == draft), 1.0, 0.0)
    return q
