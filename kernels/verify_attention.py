"""Attention of a verify: up to k + 1 new queries per row, over rows of different lengths in a pool of pages.

Three backends share one kernel and differ in how they treat unequal rows:

- `ragged`: one launch; each program reads its row's length on the device and stops there;
- `pad`: one launch; every row takes as many steps as the longest (BASS-PAD, arXiv 2404.15778);
- `split`: one launch per row (BASS-SPLIT).

The queries of all heads that share a KV head form one tile (GQA packing), so that keys and values are read once. The
keys of a row are split over several programs, and a second kernel merges their results by log-sum-exp (flash
decoding). The grid of `ragged` depends on shapes alone, so that a CUDA graph of it can be replayed while lengths and
pages change.
"""

from __future__ import annotations

import math

import torch

from kernels.availability import (
    INTERPRETED,
    count_multiprocessors,
    jit,
    jit_unspecialized,
    next_power_of_two,
    require_triton,
    tl,
)
from kernels.rows import RaggedRows

_LOG2E = 1.4426950408889634
# Bytes of keys and values in one pipeline stage; two stages are in flight.
_STAGE_BYTES = 32 * 1024
_MAX_SPLITS = 64
# Blocks of keys per split, at least: for fewer, merging takes longer than splitting saves.
_MIN_BLOCKS = 2
# The programs of a launch are as many as a GPU runs at once, by registers (tests/kernels/test_compiling.py): these keep
# enough loads in flight, and a second wave would only add parts to write and merge. PyTorch's attention never takes
# their place: in a graph it would read all that a row may hold, and its own splits depend on the batch.
_PROGRAMS_OF_16_QUERIES, _PROGRAMS_OF_MORE = 3, 2


def attend_ragged(
    q: torch.Tensor,  # [N, Hq, D]
    k: torch.Tensor,  # [P, Hkv, page_size, D]
    v: torch.Tensor,  # [P, Hkv, page_size, D]
    rows: RaggedRows,
    scale: float,
    window: int | None = None,
    *,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,  # [Hq]
) -> torch.Tensor:
    """Return [N, Hq, D]: each query attends to its row's tokens up to its position, the last `window` of them if given.

    Nothing past a row's last token is read. The width of the table bounds the splits, so a narrower table
    (`page_table[:, :n]`) saves merging for short rows. `softcap` limits the scores to c * tanh(score / c) (Gemma 2).
    `sinks` adds one key per head with the given score and the value zero (gpt-oss). Raises `KernelError` where Triton
    does not run.
    """
    n_splits = _choose_n_splits(q, k, rows.pages.shape[1] * rows.page_size, rows.max_count, len(rows.count))
    return _Parts(q, n_splits).add(q, k, v, rows, scale, window, softcap).merge(sinks)


def attend_padded(
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
    """Return what `attend_ragged` returns, with every row padded to the longest (BASS-PAD). Needs their lengths."""
    assert rows.lengths_and_counts is not None
    longest = max(length + count for length, count in rows.lengths_and_counts)
    n_splits = _choose_n_splits(q, k, longest, rows.max_count, len(rows.count))
    return _Parts(q, n_splits).add(q, k, v, rows, scale, window, softcap, longest=longest).merge(sinks)


def attend_split(
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
    """Return what `attend_ragged` returns, with one launch per row (BASS-SPLIT). Needs their lengths."""
    assert rows.lengths_and_counts is not None
    parts = _Parts(
        q, max(_choose_n_splits(q, k, length + count, count, 1) for length, count in rows.lengths_and_counts)
    )
    for r, (_, count) in enumerate(rows.lengths_and_counts):
        if count:
            parts.add(q, k, v, rows.select_row(r), scale, window, softcap)
    return parts.merge(sinks)


def _choose_n_splits(q: torch.Tensor, k: torch.Tensor, n_slots: int, max_count: int, n_rows: int) -> int:
    """Return how many programs share a row's keys, at most `n_slots` of them; reads nothing from the device."""
    Hkv, _, D = k.shape[1:]
    n_queries = max(max_count, 1) * q.shape[1] // Hkv
    block_m = _choose_block_m(n_queries, D)
    fitting = count_multiprocessors(q.device) * (_PROGRAMS_OF_16_QUERIES if block_m == 16 else _PROGRAMS_OF_MORE)
    wanted = fitting // (n_rows * Hkv * math.ceil(n_queries / block_m))
    useful = math.ceil(n_slots / (_MIN_BLOCKS * choose_block_n(D, q.element_size())))
    return max(1, min(wanted, useful, _MAX_SPLITS))


def _choose_block_m(n_queries: int, D: int) -> int:
    """Return the queries per tile, of the `n_queries` of a row and KV head."""
    # A tile's queries and accumulators share registers and shared memory with the keys.
    return min(max(next_power_of_two(n_queries), 16), 64 if D <= 128 else 32)


def choose_block_n(D: int, n_bytes: int) -> int:
    """Return the keys per block for heads of width `D` in numbers of `n_bytes`; checks test lengths around it."""
    return min(max(_STAGE_BYTES // (2 * next_power_of_two(D) * n_bytes), 16), 128)


def _choose_store_dtype(q: torch.Tensor) -> torch.dtype:
    # NOTE Triton's interpreter truncates float32 to bfloat16, where hardware rounds: let PyTorch round instead.
    return torch.float32 if INTERPRETED else q.dtype


class _Parts:
    """The outputs of all splits, [n_parts, N, Hq, D], and their log-sum-exps in base 2, [n_parts, N, Hq]."""

    def __init__(self, q: torch.Tensor, n_parts: int) -> None:
        require_triton(q.device)
        self.n_parts = n_parts
        # A single part is the result: store it in the final dtype.
        self.out = q.new_empty(n_parts, *q.shape, dtype=_choose_store_dtype(q) if n_parts == 1 else torch.float32)
        self.lse = q.new_empty(n_parts, *q.shape[:2], dtype=torch.float32)
        self.like = q

    def add(
        self,
        q: torch.Tensor,  # [N, Hq, D]
        k: torch.Tensor,  # [P, Hkv, page_size, D]
        v: torch.Tensor,  # [P, Hkv, page_size, D]
        rows: RaggedRows,
        scale: float,
        window: int | None,
        softcap: float | None,
        *,
        longest: int | None = None,
    ) -> _Parts:
        """Compute the parts of some rows from attention over `k` and `v`."""
        N, Hq, D = q.shape
        R, n_pages = rows.pages.shape
        Hkv = k.shape[1]
        assert Hq % Hkv == 0
        assert k.dtype == v.dtype == q.dtype
        assert k.shape == v.shape
        assert k.shape[2:] == (rows.page_size, D)
        assert q.stride(2) == k.stride(3) == v.stride(3) == rows.pages.stride(1) == 1
        assert rows.pages.dtype == torch.int32
        assert len(rows.query_start) == len(rows.count) == len(rows.length) == R
        assert len(rows.position) == N
        group = Hq // Hkv
        block_m = _choose_block_m(group * rows.max_count, D)
        grid = (math.ceil(group * rows.max_count / block_m), R * Hkv, self.n_parts)
        _attend[grid](
            self.out,
            self.lse,
            q,
            k,
            v,
            rows.query_start,
            rows.count,
            rows.length,
            rows.pages,
            rows.position,
            # The kernel computes 2^score. A capped score is scaled to base 2 after its tanh.
            scale * _LOG2E if softcap is None else scale / softcap,
            (softcap or 0.0) * _LOG2E,
            N,
            window or 0,
            longest or 0,
            self.n_parts,
            n_pages * rows.page_size,
            rows.pages.stride(0),
            *q.stride()[:2],
            *k.stride()[:3],
            *v.stride()[:3],
            N_HEADS=Hq,
            GROUP=group,
            D=D,
            PAGE=rows.page_size,
            BLOCK_M=block_m,
            BLOCK_N=choose_block_n(D, q.element_size()),
            BLOCK_D=next_power_of_two(D),
            WINDOWED=window is not None,
            CAPPED=softcap is not None,
            PADDED=longest is not None,
            # NOTE Triton 3.9's interpreter multiplies bfloat16 operands of a dot as if their bits were integers.
            UPCAST=INTERPRETED and q.dtype == torch.bfloat16,
            num_warps=4,
            num_stages=3,
        )
        return self

    def merge(self, sinks: torch.Tensor | None) -> torch.Tensor:
        """Return the attention of all parts, [N, Hq, D], in the dtype of the queries."""
        if sinks is not None:
            # A sink has a share of the softmax's mass and the value zero: scale outputs by the remaining share.
            mass = self.lse[0] if self.n_parts == 1 else self.lse.mul(1 / _LOG2E).logsumexp(0).mul(_LOG2E)
            share = torch.sigmoid(mass / _LOG2E - sinks.float())[..., None]
            return (self._average().float() * share).to(self.like.dtype)
        return self._average().to(self.like.dtype)

    def _average(self) -> torch.Tensor:
        """Return [N, Hq, D]: the average of the parts, weighted by the softmax mass of each."""
        if self.n_parts == 1:
            return self.out[0]
        N, Hq, D = self.like.shape
        merged = self.like.new_empty(N, Hq, D, dtype=_choose_store_dtype(self.like))
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


@jit
def _dot(a, b, UPCAST: tl.constexpr):
    """Return a @ b in float32, `a` rounded to b's dtype first; without TF32 rounding."""
    if UPCAST:
        b = b.to(tl.float32)
    return tl.dot(a.to(b.dtype), b, input_precision="ieee")


@jit_unspecialized(
    "query_start_ptr",
    "count_ptr",
    "length_ptr",
    "page_table_ptr",
    "n_tokens",
    "window",
    "longest",
    "n_splits",
    "n_slots",
    "page_table_stride",
)
def _attend(  # noqa: PLR0915 (one tile from load to store)
    out_ptr,  # [n_parts, N, Hq, D], float32, or the queries' dtype where there is one part
    lse_ptr,  # float32 [n_parts, N, Hq], base 2
    q_ptr,  # [N, Hq, D]
    k_ptr,  # [P, Hkv, PAGE, D]
    v_ptr,  # [P, Hkv, PAGE, D]
    query_start_ptr,  # int32 [R]
    count_ptr,  # int32 [R]
    length_ptr,  # int32 [R]
    page_table_ptr,  # int32 [R, n_slots / PAGE]
    position_ptr,  # int64 [N]
    scale,  # of scores in base 2, or before the tanh where they are capped
    cap_log2,
    n_tokens,
    window,
    longest,
    n_splits,
    n_slots,
    page_table_stride,
    q_token_stride,
    q_head_stride,
    k_page_stride,
    k_head_stride,
    k_offset_stride,
    v_page_stride,
    v_head_stride,
    v_offset_stride,
    N_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    WINDOWED: tl.constexpr,
    CAPPED: tl.constexpr,
    PADDED: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Attend one tile of queries of one (row, KV head) to one split of its keys."""
    tile, head_of_row, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = (head_of_row // (N_HEADS // GROUP)).to(tl.int64)
    head = head_of_row % (N_HEADS // GROUP)
    n_new = tl.load(count_ptr + row)
    if not PADDED:  # noqa: SIM102 (a constant and a scalar of the device do not mix)
        if tile * BLOCK_M >= n_new * GROUP:
            return
    n_old = tl.load(length_ptr + row)
    # The padding tokens of a captured round may lie past the table.
    n_keys = tl.minimum(n_old + n_new, n_slots)
    end = longest if PADDED else n_keys
    begin = 0
    if WINDOWED:
        # The row's first query has the earliest window.
        begin = tl.maximum(n_old - window + 1, 0) // BLOCK_N * BLOCK_N

    m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)
    token = (tl.load(query_start_ptr + row) + m // GROUP).to(tl.int64)
    query_head = head * GROUP + m % GROUP
    is_query = m < n_new * GROUP
    query = tl.load(
        q_ptr + token[:, None] * q_token_stride + query_head[:, None] * q_head_stride + d[None, :],
        mask=is_query[:, None] & (d < D)[None, :],
        other=0.0,
    )
    query_position = tl.load(position_ptr + token, mask=is_query, other=0)

    # Blocks are divided by the row's own length, so that short rows are split as well.
    blocks_each = tl.cdiv(tl.cdiv(end - begin, BLOCK_N), n_splits)
    start = begin + part * blocks_each * BLOCK_N
    stop = tl.minimum(start + blocks_each * BLOCK_N, end)
    pages_ptr = page_table_ptr + row * page_table_stride
    k_base = k_ptr + head.to(tl.int64) * k_head_stride
    v_base = v_ptr + head.to(tl.int64) * v_head_stride
    peak = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    mass = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for block in range(start, stop, BLOCK_N):
        key_position = block + tl.arange(0, BLOCK_N)
        in_row = key_position < n_keys  # `pad` computes with zeros for the padding
        page = tl.load(pages_ptr + key_position // PAGE, mask=in_row, other=0).to(tl.int64)
        offset = (key_position % PAGE).to(tl.int64)
        key = tl.load(
            k_base + (page * k_page_stride + offset * k_offset_stride)[None, :] + d[:, None],
            mask=in_row[None, :] & (d < D)[:, None],
            other=0.0,
        )
        value = tl.load(
            v_base + (page * v_page_stride + offset * v_offset_stride)[:, None] + d[None, :],
            mask=in_row[:, None] & (d < D)[None, :],
            other=0.0,
        )
        score = _dot(query, key, UPCAST) * scale
        if CAPPED:
            # tanh(x) = 1 - 2 / (1 + e^2x) does not overflow for any x.
            score = cap_log2 * (1.0 - 2.0 / (1.0 + tl.exp2(score * (2.0 * 1.4426950408889634))))
        visible = in_row[None, :] & (key_position[None, :] <= query_position[:, None])
        if WINDOWED:
            visible = visible & (key_position[None, :] > query_position[:, None] - window)
        score = tl.where(visible, score, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(score, 1))
        # A query that has not seen a key yet has the peak -inf, and -inf - -inf is NaN.
        shift = tl.where(new_peak == float("-inf"), 0.0, new_peak)
        weight = tl.exp2(score - shift[:, None])
        rescale = tl.exp2(peak - shift)
        mass = mass * rescale + tl.sum(weight, 1)
        acc = acc * rescale[:, None] + _dot(weight, value, UPCAST)
        peak = new_peak

    seen = mass > 0
    acc = acc / tl.where(seen, mass, 1.0)[:, None]
    # `is_query` also masks the queries past the row's count.
    at = (part.to(tl.int64) * n_tokens + token) * N_HEADS + query_head
    tl.store(lse_ptr + at, tl.where(seen, peak + tl.log2(tl.where(seen, mass, 1.0)), float("-inf")), mask=is_query)
    # Parts of a short row without keys are not merged. A single part is the result in any case.
    if start < stop or n_splits == 1:
        tl.store(
            out_ptr + at[:, None] * D + d[None, :],
            acc.to(out_ptr.dtype.element_ty),
            mask=is_query[:, None] & (d < D)[None, :],
        )


@jit_unspecialized("n_queries", "n_parts")
def _merge(
    merged_ptr,  # [N, Hq, D]
    out_ptr,  # float32 [n_parts, N, Hq, D]
    lse_ptr,  # float32 [n_parts, N, Hq], base 2
    n_queries,  # N * Hq
    n_parts,
    D: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Merge one query's parts: the average of their outputs, weighted by the softmax mass of each."""
    query = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, BLOCK_P)
    d = tl.arange(0, BLOCK_D)
    at = part.to(tl.int64) * n_queries + query
    log_mass = tl.load(lse_ptr + at, mask=part < n_parts, other=float("-inf"))
    peak = tl.max(log_mass, 0)
    weight = tl.exp2(log_mass - tl.where(peak == float("-inf"), 0.0, peak))
    values = tl.load(
        out_ptr + at[:, None] * D + d[None, :], mask=(log_mass > float("-inf"))[:, None] & (d < D)[None, :], other=0.0
    )
    total = tl.sum(weight, 0)
    result = tl.sum(values * weight[:, None], 0) / tl.where(total > 0, total, 1.0)
    tl.store(merged_ptr + query * D + d, result.to(merged_ptr.dtype.element_ty), mask=d < D)
