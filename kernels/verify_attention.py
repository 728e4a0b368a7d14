"""Attention of a verify: k + 1 new queries per row over keys and values of as many lengths as there are rows.

Three ways to deal with rows of unequal length, one tile of arithmetic:

- `pad`   one launch; every row works through as many keys as the longest has (BASS-PAD, arXiv 2404.15778);
- `split` one launch per row, each of its own length (BASS-SPLIT);
- `ragged` one launch; each program reads its row's length on the device and does that much.

In all three the queries of all heads that share a KV head are packed into one tile (GQA), so that keys and values are
read once, and the keys of a row are split over several programs whose results a second kernel merges by their
log-sum-exp (flash decoding). Grids follow from shapes alone, so a launch of `ragged` can be captured in a CUDA graph
and replayed while lengths change. With a shared prefix the prompt's keys and values are stored once for all rows and
read once per KV head, by one launch over all queries, whose results join the merge (Hydragen, arXiv 2402.05099).
"""

from __future__ import annotations

import math

import torch

from kernels.availability import INTERPRETED, jit_for_any, n_multiprocessors, next_power_of_two, require, tl
from kernels.rows import Prefix, RaggedRows

_LOG2E = 1.4426950408889634
# Bytes of keys and values in one pipeline stage; two are in flight.
_STAGE_BYTES = 32 * 1024
_MAX_SPLITS = 64
# A split has at least this many blocks of keys, or merging costs more than splitting brings.
_MIN_BLOCKS = 2
# Programs per multiprocessor to aim at: enough loads in flight to fill the memory bandwidth.
_PROGRAMS_EACH = 4


def ragged(
    q: torch.Tensor,  # [N, Hq, D]
    k: torch.Tensor,  # [R, Hkv, S, D]
    v: torch.Tensor,  # [R, Hkv, S, D]
    rows: RaggedRows,
    scale: float,
    window: int | None = None,
    prefix: Prefix | None = None,
    *,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,  # [Hq]
) -> torch.Tensor:
    """Return [N, Hq, D]; each query sees its own row's slots up to its position, `window` of them if given.

    `position - prefix length` is a query's slot. Nothing is read past a row's length, whatever lies there. `softcap`
    bounds the scores, c * tanh(score / c) (Gemma 2). `sinks` are scores of one more key per head, whose value is zero
    (gpt-oss).
    """
    n_splits = _split_count(q, k, rows.max_count, k.shape[0])
    if prefix is None:
        return _Parts(q, n_splits).add(q, k, v, rows, scale, window, softcap).merge(sinks)
    N, device = q.shape[0], q.device
    # To the prefix all queries are one row, whose keys all lie before them.
    common = RaggedRows(
        first=torch.zeros(1, dtype=torch.int32, device=device),
        count=torch.full((1,), N, dtype=torch.int32, device=device),
        length=torch.full((1,), prefix.n_slots, dtype=torch.int32, device=device),
        position=rows.position,
        max_count=N,
    )
    before, values = prefix.keys[None], prefix.values[None]
    n_before = _split_count(q, before, N, 1)
    parts = _Parts(q, n_before + n_splits)
    parts.add(q, before, values, common, scale, window, softcap, shared=True, n_splits=n_before)
    parts.add(q, k, v, rows, scale, window, softcap, first_part=n_before, n_splits=n_splits, offset=prefix.n_slots)
    return parts.merge(sinks)


def pad(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    rows: RaggedRows,
    scale: float,
    window: int | None = None,
    *,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return what `ragged` does, with every row's keys and queries padded to the longest row's (BASS-PAD)."""
    assert rows.host is not None
    longest = max(length + count for length, count in rows.host)
    n_splits = _split_count(q, k[:, :, :longest], rows.max_count, k.shape[0])
    return _Parts(q, n_splits).add(q, k, v, rows, scale, window, softcap, longest=longest).merge(sinks)


def split(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    rows: RaggedRows,
    scale: float,
    window: int | None = None,
    *,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return what `ragged` does, with one launch per row (BASS-SPLIT)."""
    assert rows.host is not None
    slots = [k[r : r + 1, :, : max(length + count, 1)] for r, (length, count) in enumerate(rows.host)]
    counts = [_split_count(q, slot, count, 1) for slot, (_, count) in zip(slots, rows.host, strict=True)]
    parts = _Parts(q, max(counts))
    for r, slot in enumerate(slots):
        if rows.host[r][1]:
            parts.add(q, slot, v[r : r + 1], rows.one(r), scale, window, softcap)
    return parts.merge(sinks)


def _split_count(q: torch.Tensor, k: torch.Tensor, max_count: int, n_rows: int) -> int:
    """Return over how many programs a row's keys are split: a function of shapes only."""
    Hkv, n_slots, D = k.shape[1:]
    n_tiles = math.ceil(max(max_count, 1) * q.shape[1] / Hkv / _max_block_m(D))
    wanted = math.ceil(_PROGRAMS_EACH * n_multiprocessors(q.device) / (n_rows * Hkv * n_tiles))
    useful = math.ceil(n_slots / (_MIN_BLOCKS * _block_n(D, q.element_size())))
    return max(1, min(wanted, useful, _MAX_SPLITS))


def _max_block_m(D: int) -> int:
    # Queries and sums of a tile live in registers and shared memory beside the keys.
    return 64 if D <= 128 else 32


def _block_n(D: int, n_bytes: int) -> int:
    return min(max(_STAGE_BYTES // (2 * next_power_of_two(D) * n_bytes), 16), 128)


def _store_dtype(q: torch.Tensor) -> torch.dtype:
    # NOTE Triton's interpreter cuts float32 off to bfloat16 where hardware rounds: there PyTorch rounds instead.
    return torch.float32 if INTERPRETED else q.dtype


class _Parts:
    """Outputs of the splits, float32 [n_parts, N, Hq, D], with their log-sum-exps in base 2, until they are merged."""

    def __init__(self, q: torch.Tensor, n_parts: int) -> None:
        require(q.device)
        self.n_parts = n_parts
        # A single part is the result and needs no merge.
        self.out = q.new_empty(n_parts, *q.shape, dtype=_store_dtype(q) if n_parts == 1 else torch.float32)
        self.lse = q.new_empty(n_parts, *q.shape[:2], dtype=torch.float32)
        self.like = q

    def add(
        self,
        q: torch.Tensor,  # [N, Hq, D]
        k: torch.Tensor,  # [R, Hkv, S, D]
        v: torch.Tensor,  # [R, Hkv, S, D]
        rows: RaggedRows,
        scale: float,
        window: int | None,
        softcap: float | None,
        *,
        first_part: int = 0,
        n_splits: int | None = None,
        offset: int = 0,
        shared: bool = False,
        longest: int | None = None,
    ) -> _Parts:
        """Fill `n_splits` parts (all by default) with attention over `k` and `v`."""
        N, Hq, D = q.shape
        R, Hkv = k.shape[:2]
        n_splits = n_splits or self.n_parts
        assert Hq % Hkv == 0
        assert k.dtype == v.dtype == q.dtype
        assert v.shape[0] == R
        assert k.shape[3] == v.shape[3] == D
        assert q.stride(2) == k.stride(3) == v.stride(3) == 1
        assert len(rows.first) == len(rows.count) == len(rows.length) == R
        assert len(rows.position) == N
        group = Hq // Hkv
        block_m = min(max(next_power_of_two(group * rows.max_count), 16), _max_block_m(D))
        grid = (math.ceil(group * rows.max_count / block_m), R * Hkv, n_splits)
        _attend[grid](
            self.out,
            self.lse,
            q,
            k,
            v,
            rows.first,
            rows.count,
            rows.length,
            rows.position,
            # Scores are exponents of two; a capped one becomes that after its tanh.
            scale * _LOG2E if softcap is None else scale / softcap,
            (softcap or 0.0) * _LOG2E,
            N,
            offset,
            window or 0,
            longest or 0,
            n_splits,
            first_part,
            *q.stride()[:2],
            *k.stride()[:3],
            *v.stride()[:3],
            N_HEADS=Hq,
            GROUP=group,
            D=D,
            BLOCK_M=block_m,
            BLOCK_N=_block_n(D, q.element_size()),
            BLOCK_D=next_power_of_two(D),
            WINDOWED=window is not None,
            CAPPED=softcap is not None,
            SHARED=shared,
            PADDED=longest is not None,
            # NOTE Triton 3.9's interpreter multiplies bfloat16 operands of a dot as the integers of their bits.
            UPCAST=INTERPRETED and q.dtype == torch.bfloat16,
            num_warps=4,
            num_stages=3,
        )
        return self

    def merge(self, sinks: torch.Tensor | None) -> torch.Tensor:
        """Return [N, Hq, D] in the queries' dtype."""
        if sinks is not None:
            # A sink takes its share of the softmax's mass and adds nothing: every output shrinks by that share.
            mass = self.lse[0] if self.n_parts == 1 else self.lse.mul(1 / _LOG2E).logsumexp(0).mul(_LOG2E)
            share = torch.sigmoid(mass / _LOG2E - sinks.float())[..., None]
            return (self._merged().float() * share).to(self.like.dtype)
        return self._merged().to(self.like.dtype)

    def _merged(self) -> torch.Tensor:
        """Return [N, Hq, D]: the parts, each weighted by the mass that it has seen."""
        if self.n_parts == 1:
            return self.out[0]
        N, Hq, D = self.like.shape
        merged = self.like.new_empty(N, Hq, D, dtype=_store_dtype(self.like))
        _merge[(N * Hq,)](
            merged,
            self.out,
            self.lse,
            N * Hq,
            self.n_parts,
            D=D,
            BLOCK_P=next_power_of_two(self.n_parts),
            BLOCK_D=next_power_of_two(D),
            num_warps=4,
        )
        return merged


@jit_for_any("first", "count", "length", "n_tokens", "offset", "window", "longest", "n_splits", "first_part")
def _attend(  # noqa: PLR0915 (one tile from load to store)
    out,  # [n_parts, N, Hq, D], float32, or the queries' dtype where there is one part
    lse,  # float32 [n_parts, N, Hq], base 2
    q,  # [N, Hq, D]
    k,  # [R, Hkv, S, D]
    v,  # [R, Hkv, S, D]
    first,  # int32 [R]
    count,  # int32 [R]
    length,  # int32 [R]
    position,  # int64 [N]
    scale,  # of scores in base 2, or before the tanh where they are capped
    cap_log2,
    n_tokens,
    offset,  # position of slot 0
    window,
    longest,
    n_splits,
    first_part,
    q_token_stride,
    q_head_stride,
    k_row_stride,
    k_head_stride,
    k_slot_stride,
    v_row_stride,
    v_head_stride,
    v_slot_stride,
    N_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    WINDOWED: tl.constexpr,
    CAPPED: tl.constexpr,
    SHARED: tl.constexpr,
    PADDED: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """One tile of queries of one (row, KV head) over one split of its keys."""
    tile, head_of_row, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = (head_of_row // (N_HEADS // GROUP)).to(tl.int64)
    head = head_of_row % (N_HEADS // GROUP)
    n_new = tl.load(count + row)
    if not PADDED:  # noqa: SIM102 (a constant and a scalar of the device do not mix)
        if tile * BLOCK_M >= n_new * GROUP:
            return
    n_old = tl.load(length + row)
    n_keys = n_old if SHARED else n_old + n_new
    end = longest if PADDED else n_keys
    begin = 0
    if WINDOWED and not SHARED:
        # No query looks further back than the row's first one.
        begin = tl.maximum(n_old - window + 1, 0) // BLOCK_N * BLOCK_N

    m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)
    token = (tl.load(first + row) + m // GROUP).to(tl.int64)
    query_head = head * GROUP + m % GROUP
    live = m < n_new * GROUP
    query = tl.load(
        q + token[:, None] * q_token_stride + query_head[:, None] * q_head_stride + d[None, :],
        mask=live[:, None] & (d < D)[None, :],
        other=0.0,
    )
    here = tl.load(position + token, mask=live, other=0) - offset

    # Blocks are dealt out by the row's own length, so every split has a share at any length.
    blocks_each = tl.cdiv(tl.cdiv(end - begin, BLOCK_N), n_splits)
    start = begin + part * blocks_each * BLOCK_N
    stop = tl.minimum(start + blocks_each * BLOCK_N, end)
    k_base = k + row * k_row_stride + head * k_head_stride
    v_base = v + row * v_row_stride + head * v_head_stride
    peak = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    mass = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for block in range(start, stop, BLOCK_N):
        slot = block + tl.arange(0, BLOCK_N)
        held = slot < n_keys
        # NOTE `pad` reads what it is padded with, as BASS-PAD does; what it read must still not reach a sum.
        fetched = slot < end
        key = tl.load(
            k_base + slot[None, :].to(tl.int64) * k_slot_stride + d[:, None],
            mask=fetched[None, :] & (d < D)[:, None],
            other=0.0,
        )
        value = tl.load(
            v_base + slot[:, None].to(tl.int64) * v_slot_stride + d[None, :],
            mask=fetched[:, None] & (d < D)[None, :],
            other=0.0,
        )
        if PADDED:
            value = tl.where(held[:, None], value, 0.0)
        if UPCAST:
            score = tl.dot(query.to(tl.float32), key.to(tl.float32), input_precision="ieee") * scale
        else:
            score = tl.dot(query, key, input_precision="ieee") * scale
        if CAPPED:
            # tanh(x) = 1 - 2 / (1 + e^2x), which no x overflows.
            score = cap_log2 * (1.0 - 2.0 / (1.0 + tl.exp2(score * (2.0 * 1.4426950408889634))))
        visible = held[None, :] & (slot[None, :] <= here[:, None])
        if WINDOWED:
            visible = visible & (slot[None, :] > here[:, None] - window)
        score = tl.where(visible, score, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(score, 1))
        # A query that has seen no key yet has no peak to subtract.
        shift = tl.where(new_peak == float("-inf"), 0.0, new_peak)
        weight = tl.exp2(score - shift[:, None])
        fade = tl.exp2(peak - shift)
        mass = mass * fade + tl.sum(weight, 1)
        if UPCAST:
            acc = acc * fade[:, None] + tl.dot(weight, value.to(tl.float32), input_precision="ieee")
        else:
            acc = acc * fade[:, None] + tl.dot(weight.to(value.dtype), value, input_precision="ieee")
        peak = new_peak

    seen = mass > 0
    acc = acc / tl.where(seen, mass, 1.0)[:, None]
    # Queries that are not there have seen nothing either, and are not stored.
    at = ((first_part + part).to(tl.int64) * n_tokens + token) * N_HEADS + query_head
    tl.store(lse + at, tl.where(seen, peak + tl.log2(tl.where(seen, mass, 1.0)), float("-inf")), mask=live)
    tl.store(
        out + at[:, None] * D + d[None, :],
        acc.to(out.dtype.element_ty),
        mask=live[:, None] & (d < D)[None, :],
    )


@jit_for_any("n_queries", "n_parts")
def _merge(
    merged,  # [N, Hq, D]
    out,  # float32 [n_parts, N, Hq, D]
    lse,  # float32 [n_parts, N, Hq], base 2
    n_queries,  # N * Hq
    n_parts,
    D: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """One query's parts, weighted by the share of the softmax's mass that each has seen."""
    query = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, BLOCK_P)
    d = tl.arange(0, BLOCK_D)
    at = part.to(tl.int64) * n_queries + query
    log_mass = tl.load(lse + at, mask=part < n_parts, other=float("-inf"))
    peak = tl.max(log_mass, 0)
    weight = tl.exp2(log_mass - tl.where(peak == float("-inf"), 0.0, peak))
    values = tl.load(
        out + at[:, None] * D + d[None, :], mask=(log_mass > float("-inf"))[:, None] & (d < D)[None, :], other=0.0
    )
    total = tl.sum(weight, 0)
    result = tl.sum(values * weight[:, None], 0) / tl.where(total > 0, total, 1.0)
    tl.store(merged + query * D + d, result.to(merged.dtype.element_ty), mask=d < D)
