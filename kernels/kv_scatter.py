"""Writes the keys and values of packed tokens to their rows and slots of the ragged cache, in one launch."""

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
    """Write each token's keys and values to its slot. Tokens whose slot lies past the end of the row are skipped.

    A captured round has the same number of tokens in every row. The padding tokens of a short row may lie past the
    end of the cache, and clamping their slot would overwrite a live one.
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
    keys_ptr,  # [B, Hkv, S, D]
    values_ptr,  # [B, Hkv, S, D]
    new_keys_ptr,  # [N, Hkv, D]
    new_values_ptr,  # [N, Hkv, D]
    row_ptr,  # int64 [N]
    position_ptr,  # int64 [N]
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
    """Copy one token's keys and values."""
    n = tl.program_id(0).to(tl.int64)
    slot = tl.load(position_ptr + n)
    x = tl.arange(0, BLOCK)
    head, d = x // D, x % D
    # NOTE Triton 3.9's interpreter cannot join a block mask and a scalar condition with &.
    inside = x < tl.where(slot < n_slots, N_HEADS * D, 0)
    to = tl.load(row_ptr + n) * cache_row_stride + head * cache_head_stride + slot * cache_slot_stride + d
    key = tl.load(new_keys_ptr + n * key_token_stride + head * key_head_stride + d, mask=inside)
    value = tl.load(new_values_ptr + n * value_token_stride + head * value_head_stride + d, mask=inside)
    tl.store(keys_ptr + to, key, mask=inside)
    tl.store(values_ptr + to, value, mask=inside)
