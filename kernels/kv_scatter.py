"""Writes the keys and values of packed tokens to their slots of a pool of pages, in one launch."""

from __future__ import annotations

import torch

from kernels.availability import jit_unspecialized, next_power_of_two, require_triton, tl


def write_kv(
    keys: torch.Tensor,  # [P, Hkv, page_size, D], the pool
    values: torch.Tensor,  # [P, Hkv, page_size, D], the pool
    new_keys: torch.Tensor,  # [N, Hkv, D]
    new_values: torch.Tensor,  # [N, Hkv, D]
    slot: torch.Tensor,  # int64 [N], page * page_size + offset
) -> None:
    """Write each token's keys and values to its slot. Tokens whose slot is outside the pool are skipped.

    A captured round has the same number of tokens in every row. The padding tokens of a short row may lie past its
    table, and have a negative slot (`find_slots`): clamping it would overwrite a live one.
    """
    require_triton(keys.device)
    N, n_heads, D = new_keys.shape
    n_pages, _, page_size, _ = keys.shape
    assert keys.shape == values.shape, "its keys and values differ in size"
    assert (keys.shape[1], keys.shape[3]) == (n_heads, D) == tuple(new_values.shape[1:])
    assert keys.stride() == values.stride()
    assert new_keys.stride(2) == new_values.stride(2) == keys.stride(3) == 1
    assert slot.is_contiguous()
    _scatter[(N,)](
        keys,
        values,
        new_keys,
        new_values,
        slot,
        n_pages * page_size,
        *keys.stride()[:3],
        *new_keys.stride()[:2],
        *new_values.stride()[:2],
        N_HEADS=n_heads,
        D=D,
        PAGE=page_size,
        BLOCK=next_power_of_two(n_heads * D),
    )


@jit_unspecialized("n_slots")
def _scatter(
    keys_ptr,  # [P, Hkv, page_size, D]
    values_ptr,  # [P, Hkv, page_size, D]
    new_keys_ptr,  # [N, Hkv, D]
    new_values_ptr,  # [N, Hkv, D]
    slot_ptr,  # int64 [N]
    n_slots,
    page_stride,
    head_stride,
    offset_stride,
    key_token_stride,
    key_head_stride,
    value_token_stride,
    value_head_stride,
    N_HEADS: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Copy one token's keys and values."""
    n = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_ptr + n)
    x = tl.arange(0, BLOCK)
    head, d = x // D, x % D
    # NOTE Triton 3.9's interpreter cannot join a block mask and a scalar condition with &.
    inside = x < tl.where((slot >= 0) & (slot < n_slots), N_HEADS * D, 0)
    to = slot // PAGE * page_stride + slot % PAGE * offset_stride + head * head_stride + d
    key = tl.load(new_keys_ptr + n * key_token_stride + head * key_head_stride + d, mask=inside)
    value = tl.load(new_values_ptr + n * value_token_stride + head * value_head_stride + d, mask=inside)
    tl.store(keys_ptr + to, key, mask=inside)
    tl.store(values_ptr + to, value, mask=inside)
