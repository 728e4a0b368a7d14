"""Rotates the queries and keys of packed tokens and writes keys and values to their slots of a pool, in one launch."""

from __future__ import annotations

import torch

from kernels.availability import jit_unspecialized, next_power_of_two, require_triton, tl


def rotate_and_write(
    heads: torch.Tensor,  # [N, (Hq + 2 Hkv) D], queries, keys and values of each token side by side
    cos: torch.Tensor,  # [N, D]
    sin: torch.Tensor,  # [N, D]
    keys: torch.Tensor,  # [P, Hkv, page_size, D], the pool
    values: torch.Tensor,  # [P, Hkv, page_size, D], the pool
    slot: torch.Tensor,  # int64 [N], page * page_size + offset
) -> torch.Tensor:
    """Return the rotated queries [N, Hq, D]; write rotated keys, and values, to their slots.

    The halves of a head rotate against each other, by the first half of `cos` and `sin`. Tokens whose slot is outside
    the pool are not written, as in `kv_scatter.write_kv`.
    """
    require_triton(heads.device)
    N = len(heads)
    n_pages, n_kv, page_size, D = keys.shape
    n_heads = heads.shape[1] // D
    n_queries = n_heads - 2 * n_kv
    assert heads.is_contiguous()
    assert heads.shape[1] == n_heads * D
    assert n_queries > 0
    assert keys.shape == values.shape
    assert keys.stride() == values.stride()
    assert keys.stride(3) == cos.stride(1) == sin.stride(1) == 1
    assert cos.stride(0) == sin.stride(0)
    queries = heads.new_empty(N, n_queries, D)
    _rotate_and_write[(N, n_heads)](
        heads,
        cos,
        sin,
        queries,
        keys,
        values,
        slot,
        n_pages * page_size,
        cos.stride(0),
        *keys.stride()[:3],
        N_QUERIES=n_queries,
        N_KV=n_kv,
        D=D,
        PAGE=page_size,
        HALF=next_power_of_two(D // 2),
        num_warps=1,
    )
    return queries


@jit_unspecialized("n_slots")
def _rotate_and_write(
    heads_ptr,  # [N, (Hq + 2 Hkv) D]
    cos_ptr,  # [N, D]
    sin_ptr,  # [N, D]
    queries_ptr,  # [N, Hq, D]
    keys_ptr,  # [P, Hkv, page_size, D]
    values_ptr,  # [P, Hkv, page_size, D]
    slot_ptr,  # int64 [N]
    n_slots,
    angle_stride,
    page_stride,
    head_stride,
    offset_stride,
    N_QUERIES: tl.constexpr,
    N_KV: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    HALF: tl.constexpr,
):
    """One head of one token."""
    n, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = tl.arange(0, HALF)
    inside = at < D // 2
    place = (n * (N_QUERIES + 2 * N_KV) + head) * D + at
    left = tl.load(heads_ptr + place, mask=inside, other=0)
    right = tl.load(heads_ptr + place + D // 2, mask=inside, other=0)
    if head < N_QUERIES + N_KV:
        cos = tl.load(cos_ptr + n * angle_stride + at, mask=inside, other=0).to(tl.float32)
        sin = tl.load(sin_ptr + n * angle_stride + at, mask=inside, other=0).to(tl.float32)
        first, second = left.to(tl.float32), right.to(tl.float32)
        left = (first * cos - second * sin).to(left.dtype)
        right = (second * cos + first * sin).to(right.dtype)
    if head < N_QUERIES:
        to = (n * N_QUERIES + head) * D + at
        tl.store(queries_ptr + to, left, mask=inside)
        tl.store(queries_ptr + to + D // 2, right, mask=inside)
    else:
        slot = tl.load(slot_ptr + n)
        # NOTE Triton 3.9's interpreter cannot join a block mask and a scalar condition with &.
        inside = at < tl.where((slot >= 0) & (slot < n_slots), D // 2, 0)
        kv_head = (head - N_QUERIES) % N_KV
        to = slot // PAGE * page_stride + slot % PAGE * offset_stride + kv_head * head_stride + at
        if head < N_QUERIES + N_KV:
            tl.store(keys_ptr + to, left, mask=inside)
            tl.store(keys_ptr + to + D // 2, right, mask=inside)
        else:
            tl.store(values_ptr + to, left, mask=inside)
            tl.store(values_ptr + to + D // 2, right, mask=inside)
