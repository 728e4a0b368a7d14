"""Linear layers for a CPU: weights reordered once into the layout that oneDNN's bf16 kernels read.

Without this every call reorders the weight anew, which costs as much as the product itself at the few tokens that a
decoding step has: on one 2-core Zen 4 machine a step of 8 tokens took half the time (docs/decoding.md).
"""

from __future__ import annotations

import torch
from torch import nn


class PackedLinear(nn.Module):
    """What `nn.Linear` computes, from a weight [out, in] that oneDNN has reordered."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x @ weight.T + bias, [..., out]."""
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return out


def prepack(model: nn.Module) -> None:
    """Replace the linear layers of a bf16 model on a CPU with packed ones; leaves any other model as it is."""
    weight = next(model.parameters())
    if weight.device.type != "cpu" or weight.dtype != torch.bfloat16:
        return
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, PackedLinear(child))
