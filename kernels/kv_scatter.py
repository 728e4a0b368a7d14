"""Keys and values of packed tokens into the ragged cache: every token to its own row and slot, in one launch."""

from __future__ import annotations

import torch

from kernels.availability import jit_for_any, next_power_of_two, require, tl


def kv_scatter(
    keys: torch.Tensor,  # [B, Hkv, S, D], the cache
    values: torch.Tensor,  # [B, Hkv, S, D], the cache
    new_keys: torch.Tensor,  # [N, Hkv, D]
    new_values: torch.Tensor,  # [N, Hkv, D]
    row: torch.Tensor,  # int64 [N]
    position: torch.Tensor,  # int64 [N], the slot in the row
) -> None:
    """Write each token's keys and values to its slot; a slot past the row's end is left out, never clamped.

    The last holds because a captured round brings the same number of tokens for every row: what a short row has too
    many may stick out past the end of the cache, and must not overwrite anything.
    """
    require(keys.device)
    N, n_heads, D = new_keys.shape
    assert keys.shape == values.shape, "its keys and values differ in size"
    assert (keys.shape[1], keys.shape[3]) == (n_heads, D) == tuple(new_values.shape[1:])
    assert keys.stride() == values.stride()
    assert new_keys.stride(2) == new_values.stride(2) == keys.stride(3) == 1
    assert row.is_contiguous()
    assert position.is_contiguous()
    _scatter[(N,)](
        keys,
        values,
        new_keys,
        new_values,
        row,
        position,
        keys.shape[2],
        *keys.stride()[:3],
        *new_keys.stride()[:2],
        *new_values.stride()[:2],
        N_HEADS=n_heads,
        D=D,
        BLOCK=next_power_of_two(n_heads * D),
    )


@jit_for_any("n_slots")
def _scatter(
    keys,  # [B, Hkv, S, D]
    values,  # [B, Hkv, S, D]
    new_keys,  # [N, Hkv, D]
    new_values,  # [N, Hkv, D]
    row,  # int64 [N]
    position,  # int64 [N]
    n_slots,
    cache_row_stride,
    cache_head_stride,
    cache_slot_stride,
    key_token_stride,
    key_head_stride,
    value_token_stride,
    value_head_stride,
    N_HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    n = tl.program_id(0).to(tl.int64)
    slot = tl.load(position + n)
    x = tl.arange(0, BLOCK)
    head, d = x // D, x % D
    # NOTE a block's mask and a scalar one cannot be joined by & in Triton 3.9's interpreter.
    inside = x < tl.where(slot < n_slots, N_HEADS * D, 0)
    to = tl.load(row + n) * cache_row_stride + head * cache_head_stride + slot * cache_slot_stride + d
    key = tl.load(new_keys + n * key_token_stride + head * key_head_stride + d, mask=inside)
    value = tl.load(new_values + n * value_token_stride + head * value_head_stride + d, mask=inside)
    tl.store(keys + to, key, mask=inside)
    tl.store(values + to, value, mask=inside)
