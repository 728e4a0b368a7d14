"""Numbers as 8-bit floats (E4M3) with a scale for each row, in one launch."""

from __future__ import annotations

import torch

from kernels.availability import INTERPRETED, jit, next_power_of_two, require_triton, tl

LARGEST = torch.finfo(torch.float8_e4m3fn).max
TINY = 1e-12
"""The least that counts as the largest of a row, since one of zeros has a scale too."""


def quantize_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (float8_e4m3fn values [M, K], float32 scales [M, 1]) with values * scales about equal to `x` [M, K]."""
    require_triton(x.device)
    M, K = x.shape
    assert x.is_contiguous()
    # NOTE Triton 3.9's interpreter loses the carry where a number is rounded up to 8 bits: let PyTorch round instead.
    values = torch.empty_like(x, dtype=torch.float32 if INTERPRETED else torch.float8_e4m3fn)
    scale = x.new_empty(M, 1, dtype=torch.float32)
    block = next_power_of_two(K)
    warps = 4 if block <= 4096 else 16
    _quantize_rows[(M,)](x, values, scale, K=K, BLOCK=block, LARGEST=LARGEST, TINY=TINY, num_warps=warps)
    return values.to(torch.float8_e4m3fn), scale


@jit
def _quantize_rows(
    x_ptr,  # [M, K]
    values_ptr,  # [M, K]
    scale_ptr,  # [M]
    K: tl.constexpr,
    BLOCK: tl.constexpr,
    LARGEST: tl.constexpr,
    TINY: tl.constexpr,
):
    """Largest number, scale and values of one row."""
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * K + at, mask=at < K, other=0).to(tl.float32)
    scale = tl.div_rn(tl.maximum(tl.max(tl.abs(x)), TINY), LARGEST)
    tl.store(scale_ptr + row, scale)
    tl.store(values_ptr + row * K + at, tl.div_rn(x, scale), mask=at < K)
