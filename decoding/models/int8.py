"""Linear layers of 8-bit integers for a CPU: half the bytes of bf16 to read, by AMX or VNNI instructions.

Weights have one scale for each output channel, chosen once; activations one for each token, chosen as they come (W8A8,
dynamic). The products are summed in 32-bit integers, which is exact. So the result of a token is the same bits whatever
tokens share the product, unlike in floating point.
"""

from __future__ import annotations

import torch
from torch import nn

from decoding.models.packing import Packed

_LARGEST = 127
# Rows of a weight that are quantized together: the output layer alone would take half a gigabyte in float32.
_ROWS = 16384
# Smaller than any scale: for a row of zeros.
_TINY = 1e-12


class Int8Linear(Packed):
    """Computes about what `nn.Linear` computes, in 8-bit integers."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        parts = [quantize(part) for part in torch.split(linear.weight.detach(), _ROWS)]
        self._weight = torch.ops.onednn.qlinear_prepack(torch.cat([values for values, _ in parts]), None)
        self._scale = torch.cat([scale for _, scale in parts]).flatten()
        self._bias = None if linear.bias is None else linear.bias.detach().float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x @ weight.T + bias, [..., N, out], for x [..., N, in]. A token's result does not depend on N."""
        values, scale = quantize(x)
        out = _product(values, self._weight, self._scale).mul_(scale)
        if self._bias is not None:
            out += self._bias
        return out.to(x.dtype)


def quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (int8 values [..., K], float32 scales [..., 1]) with values * scales about equal to x, by rows."""
    x = x.float()
    scale = x.abs().amax(dim=-1, keepdim=True).clamp_(min=_TINY).div_(_LARGEST)
    return x.div(scale).round_().to(torch.int8), scale


def is_exact() -> bool:
    """Return whether the products of this CPU are exact.

    Without VNNI or AMX, oneDNN adds pairs of products in 16 bits, which overflow.
    """
    rows = torch.tensor([[_LARGEST, _LARGEST], [-_LARGEST, -_LARGEST], [_LARGEST, -_LARGEST]]).repeat(1, 64)
    values, ones = rows.to(torch.int8), torch.ones(len(rows))
    packed = torch.ops.onednn.qlinear_prepack(values, None)
    return torch.equal(_product(values, packed, ones), (rows @ rows.T).float())


def _product(values: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return values @ weight.T * scale in float32, [..., N, out], for a packed weight with a `scale` per output."""
    # oneDNN has one scale for all tokens, so it gets 1.
    out: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
        values, 1.0, 0, packed, scale, None, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return out
