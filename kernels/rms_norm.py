"""RMSNorm of packed tokens, with the sum that precedes it in a layer, in one launch."""

from __future__ import annotations

import torch

from kernels.availability import jit, next_power_of_two, require_triton, tl


def add_and_norm(
    x: torch.Tensor,  # [N, H]
    added: torch.Tensor | None,  # [N, H]
    weight: torch.Tensor,  # [H]
    epsilon: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (x + added, its RMSNorm), both [N, H]; (x, its RMSNorm) without `added`.

    Rounds as transformers does: the sum and the quotient to the type of `x`, before the weight multiplies it.
    """
    require_triton(x.device)
    N, H = x.shape
    assert x.is_contiguous()
    assert weight.shape == (H,)
    assert added is None or (added.shape == x.shape and added.is_contiguous())
    total, normed = x if added is None else torch.empty_like(x), torch.empty_like(x)
    block = next_power_of_two(H)
    _add_and_norm[(N,)](
        x,
        x if added is None else added,
        weight,
        total,
        normed,
        epsilon,
        H=H,
        BLOCK=block,
        HAS_ADDED=added is not None,
        num_warps=4 if block <= 2048 else 8,
    )
    return total, normed


@jit
def _add_and_norm(
    x_ptr,  # [N, H]
    added_ptr,  # [N, H]
    weight_ptr,  # [H]
    total_ptr,  # [N, H]
    normed_ptr,  # [N, H]
    epsilon,
    H: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_ADDED: tl.constexpr,
):
    """Sum and norm of one token."""
    at = tl.arange(0, BLOCK)
    inside = at < H
    place = tl.program_id(0).to(tl.int64) * H + at
    x = tl.load(x_ptr + place, mask=inside, other=0)
    if HAS_ADDED:
        x = (x.to(tl.float32) + tl.load(added_ptr + place, mask=inside, other=0).to(tl.float32)).to(x.dtype)
        tl.store(total_ptr + place, x, mask=inside)
    wide = x.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide * wide) / H + epsilon)
    weight = tl.load(weight_ptr + at, mask=inside, other=0).to(tl.float32)
    rounded = (wide * scale).to(x.dtype).to(tl.float32)
    tl.store(normed_ptr + place, rounded * weight, mask=inside)
