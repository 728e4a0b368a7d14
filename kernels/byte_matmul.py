"""The product of a round's tokens with weights of 8 bits (E4M3), which are half the bytes of bf16 to read.

Weights are dequantized in registers: activations keep their type, and nothing is quantized per token.
"""

from __future__ import annotations

import torch

from kernels.availability import INTERPRETED, jit_unspecialized, require_triton, tl

_BLOCK_K = 128


def byte_matmul(
    x: torch.Tensor,  # [M, K]
    weight: torch.Tensor,  # float8_e4m3fn [N, K]
    scale: torch.Tensor,  # float32 [N]
    bias: torch.Tensor | None,  # [N]
) -> torch.Tensor:
    """Return x @ (weight * scale).T + bias, [M, N], in the type of `x`, summed in float32.

    A row's bits depend neither on M nor on the other rows: M decides which sums a program has, and not how one is
    computed. Each goes through K in the same tiles, by the instruction that two warps have on every GPU.
    """
    require_triton(x.device)
    (M, K), N = x.shape, len(weight)
    assert x.is_contiguous()
    assert weight.is_contiguous()
    # Each program reads rows of `x`: for more rows, fewer programs.
    block_m = 32 if M > 16 and x.element_size() == 2 else 16
    block_n = 2 * block_m
    out = x.new_empty(M, N)
    _byte_matmul[(-(-M // block_m), -(-N // block_n))](
        x,
        weight.view(torch.uint8),
        scale,
        scale if bias is None else bias,
        out,
        M,
        N,
        K,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=_BLOCK_K,
        HAS_BIAS=bias is not None,
        # NOTE Triton 3.9's interpreter multiplies bfloat16 operands of a dot as if their bits were integers.
        UPCAST=INTERPRETED and x.dtype == torch.bfloat16,
        num_warps=2,
        num_stages=256 // (block_m * x.element_size()),
    )
    return out


@jit_unspecialized("M")
def _byte_matmul(
    x_ptr,  # [M, K]
    weight_ptr,  # uint8 [N, K]
    scale_ptr,  # [N]
    bias_ptr,  # [N]
    out_ptr,  # [M, N]
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """A tile of outputs. The weights are the left operand, which tensor cores take from registers."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_at = x_ptr + m[None, :].to(tl.int64) * K + k[:, None]
    weight_at = weight_ptr + n[:, None].to(tl.int64) * K + k[None, :]
    total = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inside = k < K - start
        byte = tl.load(weight_at + start, mask=(n < N)[:, None] & inside[None, :], other=0)
        x = tl.load(x_at + start, mask=inside[:, None] & (m < M)[None, :], other=0)
        if UPCAST:
            x = x.to(tl.float32)
        # By way of float32: a GPU converts float16 to bfloat16 itself at a quarter of the rate.
        weight = byte.to(tl.float8e4nv, bitcast=True).to(tl.float32).to(x.dtype)
        total = tl.dot(weight, x, total, input_precision="ieee")
    total *= tl.load(scale_ptr + n, mask=n < N, other=0)[:, None]
    if HAS_BIAS:
        total += tl.load(bias_ptr + n, mask=n < N, other=0).to(tl.float32)[:, None]
    out_at = out_ptr + m[None, :].to(tl.int64) * N + n[:, None]
    tl.store(out_at, total, mask=(n < N)[:, None] & (m < M)[None, :])
