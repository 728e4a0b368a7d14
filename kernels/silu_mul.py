"""The activation of a gated MLP, silu(gate) * up, in one launch."""

from __future__ import annotations

import torch

from kernels.availability import jit, require_triton, tl

_BLOCK = 1024


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up [N, I] of gate and up side by side [N, 2 I]."""
    require_triton(gate_up.device)
    N, width = gate_up.shape
    assert gate_up.is_contiguous()
    out = gate_up.new_empty(N, width // 2)
    _silu_mul[(N, -(-width // (2 * _BLOCK)))](gate_up, out, SIZE=width // 2, BLOCK=_BLOCK)
    return out


@jit
def _silu_mul(
    gate_up_ptr,  # [N, 2 I]
    out_ptr,  # [N, I]
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A part of one token. Rounds silu(gate) to the type of the result, as transformers does."""
    n = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < SIZE
    gate = tl.load(gate_up_ptr + n * 2 * SIZE + at, mask=inside, other=0)
    up = tl.load(gate_up_ptr + n * 2 * SIZE + SIZE + at, mask=inside, other=0)
    wide = gate.to(tl.float32)
    activated = (wide / (1.0 + tl.exp(-wide))).to(gate.dtype).to(tl.float32)
    tl.store(out_ptr + n * SIZE + at, activated * up.to(tl.float32), mask=inside)
