"""Linear layers of 8-bit floating-point numbers (E4M3) for a GPU: half the bytes of bf16 to read.

Weights have one scale for each output channel, chosen once; activations one for each token, chosen as they come. The
products run on the tensor cores of Ada, Hopper and later GPUs.
"""

from __future__ import annotations

import torch
from torch import nn

from decoding.models.packing import PackedLayer, replace_linears

_DTYPE = torch.float8_e4m3fn
_LARGEST = torch.finfo(_DTYPE).max
_TINY = 1e-12
# The tensor cores take blocks of this many numbers.
_MULTIPLE = 16
# The first GPUs (Ada) that multiply this format.
_CAPABILITY = (8, 9)


class Fp8Linear(PackedLayer):
    """Computes about what `nn.Linear` computes, in 8-bit floating-point numbers."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._weight, scale = _quantize(layer.weight.detach())  # [out, in]
        self._scale = scale.T.contiguous()  # [1, out]
        self._bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x @ weight.T + bias, [..., N, out], for x [..., N, in]."""
        values, scale = _quantize(x.flatten(0, -2))
        out: torch.Tensor = torch._scaled_mm(
            values, self._weight.T, scale_a=scale, scale_b=self._scale, out_dtype=torch.bfloat16
        )
        out = out.to(x.dtype).view(*x.shape[:-1], -1)
        return out if self._bias is None else out + self._bias


def quantize(model: nn.Module) -> None:
    """Replace the linear layers of a model whose sizes the tensor cores take; others stay dense."""
    replace_linears(
        model,
        lambda layer: None if layer.in_features % _MULTIPLE or layer.out_features % _MULTIPLE else Fp8Linear(layer),
    )


def is_supported(device: torch.device) -> bool:
    """Return whether a device multiplies these numbers."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= _CAPABILITY


def _quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (E4M3 values, float32 scales [..., 1]) with values * scales about equal to x, by rows."""
    scale = x.abs().amax(dim=-1, keepdim=True).float().clamp(min=_TINY) / _LARGEST
    return (x.float() / scale).to(_DTYPE), scale
