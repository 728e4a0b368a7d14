"""A draft token of every row, drawn from its logits in two launches, without a read by the host.

The draw is Gumbel-max with the noise of `kernels/noise.py`. How a row draws is on the device, so that one CUDA graph
serves any parameters: its most likely token (top-k 1), any token of the vocabulary (no filter), or one of what top-k,
top-p and min-p leave of its `N_CANDIDATES` most likely. The first launch reads the logits in parts, because one program
for each row would leave a GPU idle; the second one decides.

The most likely tokens are found without a sort. The 64 highest logits lie in the 64 chunks with the highest peaks, and
bisection finds the 64th highest of numbers. Among so few, the tokens before each one are compared in a square.
"""

from __future__ import annotations

import torch

from kernels.availability import jit, jit_unspecialized, next_power_of_two, require_triton, tl
from kernels.noise import compute_role_offset, compute_state, to_gumbel

N_CANDIDATES = 64
"""A filtered draft token is one of so many."""
_CHUNK = 128
_PART = 16 * _CHUNK


def draw_tokens(
    logits: torch.Tensor,  # [R, V]
    limits: torch.Tensor,  # float32 [R, 4]: temperature, top-p, min-p, top-k
    seeds: torch.Tensor,  # int64 [R]
    position: torch.Tensor,  # int64 [R]
    role: int,
    *,
    ids: torch.Tensor | None = None,  # int64 [V], the token of each logit where that is not its index
    keeps_q: bool = False,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor] | None]:
    """Return a token for each row, int64 [R], and with `keeps_q` what it was drawn from, else None.

    That is ids, int64, and their log-probabilities, float32, both [R, N_CANDIDATES]; places without a token have
    negative ids and -inf. So with `keeps_q` a row without a filter draws from the most likely tokens too. Raises
    `KernelError` where Triton does not run.
    """
    require_triton(logits.device)
    R, V = logits.shape
    n_parts, n_chunks = -(-V // _PART), -(-V // _CHUNK)
    assert limits.shape == (R, 4)
    assert seeds.shape == position.shape == (R,)
    assert logits.stride(1) == 1
    assert limits.is_contiguous()
    tokens = torch.empty(R, dtype=torch.int64, device=logits.device)
    score = torch.empty(R, n_parts, dtype=torch.float64, device=logits.device)
    best = torch.empty(R, n_parts, dtype=torch.int32, device=logits.device)
    peak = torch.empty(R, n_chunks, dtype=torch.float32, device=logits.device)
    picked = torch.empty(R, 2, N_CANDIDATES, dtype=torch.int32, device=logits.device)
    q_ids, q_logp = tokens, peak
    if keeps_q:
        q_ids = torch.empty(R, N_CANDIDATES, dtype=torch.int64, device=logits.device)
        q_logp = torch.empty(R, N_CANDIDATES, dtype=torch.float32, device=logits.device)
    how = (logits, logits if ids is None else ids, limits, seeds.contiguous(), position.contiguous())
    kind = {"HAS_IDS": ids is not None, "KEEPS_Q": keeps_q, "ROLE_OFFSET": compute_role_offset(role)}
    _read_part[(R, n_parts)](
        score, best, peak, *how, V, n_parts, n_chunks, logits.stride(0), **kind, CHUNK=_CHUNK, PART=_PART, num_warps=4
    )
    _decide[(R,)](
        tokens,
        q_ids,
        q_logp,
        picked,
        score,
        best,
        peak,
        *how,
        V,
        n_parts,
        n_chunks,
        logits.stride(0),
        **kind,
        CHUNK=_CHUNK,
        WIDTH=N_CANDIDATES,
        # Where all chunks are among the highest, none is left out.
        HAS_FEW=n_chunks <= N_CANDIDATES,
        BLOCK_P=next_power_of_two(n_parts),
        BLOCK_C=next_power_of_two(max(n_chunks, N_CANDIDATES)),
        BLOCK_V=min(next_power_of_two(max(V, N_CANDIDATES)), N_CANDIDATES * _CHUNK),
        num_warps=8,
    )
    return tokens, (q_ids, q_logp) if keeps_q else None


@jit_unspecialized("V", "n_parts", "n_chunks", "row_stride")
def _read_part(
    score_ptr,  # float64 [R, n_parts]: the best score, or the log of the part's mass
    best_ptr,  # int32 [R, n_parts]: where the best score is
    peak_ptr,  # float32 [R, n_chunks]
    logits_ptr,  # [R, V]
    ids_ptr,  # int64 [V]
    limits_ptr,  # float32 [R, 4]
    seeds_ptr,  # int64 [R]
    position_ptr,  # int64 [R]
    V,
    n_parts,
    n_chunks,
    row_stride,
    HAS_IDS: tl.constexpr,
    KEEPS_Q: tl.constexpr,
    ROLE_OFFSET: tl.constexpr,
    CHUNK: tl.constexpr,
    PART: tl.constexpr,
):
    """Read one part of a row's logits, for what its kind of draw needs."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    temperature, _, _, top_k, is_whole = _load_limits(limits_ptr, row, KEEPS_Q)
    at = part * PART + tl.arange(0, PART)
    logit = _load_logits(logits_ptr + row * row_stride, at, V)
    if is_whole or top_k == 1:
        score = logit.to(tl.float64)
        if is_whole:
            state = compute_state(tl.load(seeds_ptr + row), tl.load(position_ptr + row), ROLE_OFFSET)
            score = (logit / temperature).to(tl.float64) + to_gumbel(state, _get_ids(ids_ptr, at, V, HAS_IDS))
        tl.store(score_ptr + row * n_parts + part, tl.max(score, 0))
        tl.store(best_ptr + row * n_parts + part, part * PART + tl.argmax(score, 0))
    else:
        scaled = logit / temperature
        tl.store(score_ptr + row * n_parts + part, _sum_logs(scaled).to(tl.float64))
        chunk = part * (PART // CHUNK) + tl.arange(0, PART // CHUNK)
        peak = tl.max(tl.reshape(logit, (PART // CHUNK, CHUNK)), 1)
        tl.store(peak_ptr + row * n_chunks + chunk, peak, mask=chunk < n_chunks)


@jit_unspecialized("V", "n_parts", "n_chunks", "row_stride")
def _decide(
    tokens_ptr,  # int64 [R]
    q_ids_ptr,  # int64 [R, WIDTH]
    q_logp_ptr,  # float32 [R, WIDTH]
    picked_ptr,  # int32 [R, 2, WIDTH]: chunks, then logits
    score_ptr,  # float64 [R, n_parts]
    best_ptr,  # int32 [R, n_parts]
    peak_ptr,  # float32 [R, n_chunks]
    logits_ptr,  # [R, V]
    ids_ptr,  # int64 [V]
    limits_ptr,  # float32 [R, 4]
    seeds_ptr,  # int64 [R]
    position_ptr,  # int64 [R]
    V,
    n_parts,
    n_chunks,
    row_stride,
    HAS_IDS: tl.constexpr,
    KEEPS_Q: tl.constexpr,
    ROLE_OFFSET: tl.constexpr,
    CHUNK: tl.constexpr,
    WIDTH: tl.constexpr,
    HAS_FEW: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Draw the token of one row."""
    row = tl.program_id(0).to(tl.int64)
    temperature, top_p, min_p, top_k, is_whole = _load_limits(limits_ptr, row, KEEPS_Q)
    parts = tl.arange(0, BLOCK_P)
    score = tl.load(score_ptr + row * n_parts + parts, mask=parts < n_parts, other=float("-inf"))
    place = tl.arange(0, WIDTH)
    if is_whole or top_k == 1:
        best = tl.load(best_ptr + row * n_parts + tl.argmax(score, 0))
        only = _get_ids(ids_ptr, best, V, HAS_IDS)
        if KEEPS_Q:
            tl.store(q_ids_ptr + row * WIDTH + place, tl.where(place == 0, only, -1 - place))
            tl.store(q_logp_ptr + row * WIDTH + place, tl.where(place == 0, 0.0, float("-inf")))
        tl.store(tokens_ptr + row, only)
    else:
        row_ptr, chosen_ptr = logits_ptr + row * row_stride, picked_ptr + row * 2 * WIDTH
        at = tl.arange(0, BLOCK_V)
        if not HAS_FEW:
            chunk = tl.arange(0, BLOCK_C)
            peak = tl.load(peak_ptr + row * n_chunks + chunk, mask=chunk < n_chunks, other=float("-inf"))
            _store_highest(chosen_ptr, peak, chunk, WIDTH)
            tl.debug_barrier()
            at = tl.load(chosen_ptr + at // CHUNK) * CHUNK + at % CHUNK
        _store_highest(chosen_ptr + WIDTH, _load_logits(row_ptr, at, V), at, WIDTH)
        tl.debug_barrier()

        at = tl.load(chosen_ptr + WIDTH + place)
        logit = _load_logits(row_ptr, at, V)
        before = (logit[None, :] > logit[:, None]) | ((logit[None, :] == logit[:, None]) & (at[None, :] < at[:, None]))
        rank = tl.sum(before.to(tl.int32), 1)
        scaled = logit / temperature
        # A filter's share refers to the mass of the top k where there is a top k, else of the whole vocabulary.
        total = _sum_logs(score.to(tl.float32))
        if top_k > 0:
            scaled = tl.where(rank < top_k, scaled, float("-inf"))
            total = _sum_logs(scaled)
        p = tl.exp(scaled - total)
        mass_before = tl.sum(tl.where(before, p[None, :], 0.0), 1)
        keep = ((mass_before < top_p) & (p >= min_p * tl.max(p, 0))) | (rank == 0)
        scaled = tl.where(keep, scaled, float("-inf"))
        logp = scaled - _sum_logs(scaled)
        token = tl.where(at < V, _get_ids(ids_ptr, at, V, HAS_IDS), -1 - place)
        state = compute_state(tl.load(seeds_ptr + row), tl.load(position_ptr + row), ROLE_OFFSET)
        noisy = logp.to(tl.float64) + to_gumbel(state, token)
        noisy = tl.where(noisy > float("-inf"), noisy, float("-inf"))  # NaN is never the best
        if KEEPS_Q:
            tl.store(q_ids_ptr + row * WIDTH + place, token)
            tl.store(q_logp_ptr + row * WIDTH + place, logp)
        tl.store(tokens_ptr + row, tl.max(tl.where(place == tl.argmax(noisy, 0), token, -1), 0))


@jit
def _load_limits(limits_ptr, row, KEEPS_Q: tl.constexpr):
    """Return a row's temperature, top-p, min-p and top-k, and whether it draws from the whole vocabulary."""
    temperature, top_p = tl.load(limits_ptr + row * 4), tl.load(limits_ptr + row * 4 + 1)
    min_p, top_k = tl.load(limits_ptr + row * 4 + 2), tl.load(limits_ptr + row * 4 + 3)
    is_whole = (top_p >= 1.0) & (min_p == 0.0) & (top_k == 0.0)
    if KEEPS_Q:
        is_whole = is_whole & (top_p < 0.0)
    return temperature, top_p, min_p, top_k, is_whole


@jit
def _load_logits(row_ptr, at, V):
    """Return the logits at indices, float32; -inf past the row and for NaN."""
    logit = tl.load(row_ptr + at, mask=at < V, other=float("-inf")).to(tl.float32)
    return tl.where(logit > float("-inf"), logit, float("-inf"))


@jit
def _get_ids(ids_ptr, at, V, HAS_IDS: tl.constexpr):
    """Return the tokens, int64, of the logits at indices."""
    token = at.to(tl.int64)
    if HAS_IDS:
        token = tl.load(ids_ptr + at, mask=at < V, other=0)
    return token


@jit
def _sum_logs(x):
    """Return the log of the sum of e^x; -inf where all are -inf."""
    peak = tl.max(x, 0)
    shift = tl.where(peak == float("-inf"), 0.0, peak)
    return shift + tl.log(tl.sum(tl.exp(x - shift), 0))


@jit
def _store_highest(out_ptr, x, index, WIDTH: tl.constexpr):
    """Store the indices of the WIDTH highest of float32 `x`, in no order. The first of equal ones win."""
    # As integers, numbers have the same order.
    bits = x.to(tl.int32, bitcast=True)
    key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    # At least WIDTH keys are `low` or more, and fewer are `high` or more.
    low, high = tl.min(key, 0).to(tl.int64), tl.max(key, 0).to(tl.int64) + 1
    while high - low > 1:
        middle = low + (high - low) // 2
        n = tl.sum((key >= middle.to(tl.int32)).to(tl.int32), 0)
        low = tl.where(n >= WIDTH, middle, low)
        high = tl.where(n > WIDTH, high, tl.where(n == WIDTH, middle + 1, middle))
    edge = low.to(tl.int32)
    above, equal = (key > edge).to(tl.int32), (key == edge).to(tl.int32)
    place = tl.where(key > edge, tl.cumsum(above, 0) - 1, tl.sum(above, 0) + tl.cumsum(equal, 0) - 1)
    tl.store(out_ptr + place, index, mask=(key >= edge) & (place < WIDTH))
