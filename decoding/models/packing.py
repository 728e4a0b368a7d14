"""Linear layers for a CPU: weights reordered once into the layout that oneDNN's kernels read.

In bf16 every call would otherwise reorder the weight anew, which costs as much as the product itself at the few tokens
that a decoding step has: on one 2-core Zen 4 machine a step of 8 tokens took half the time (docs/decoding.md). In
float32 PyTorch would otherwise call MKL, whose sums depend on how many tokens are multiplied at once.
"""

from __future__ import annotations

import torch
from torch import nn

_DTYPES = (torch.bfloat16, torch.float32)


class PackedLinear(nn.Module):
    """What `nn.Linear` computes, from a weight [out, in] that oneDNN has reordered."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x @ weight.T + bias for x [..., N, in], [..., N, out]; a token's result does not depend on N."""
        # oneDNN sums a single token's products in another order than those of two or more.
        several = x.expand(*x.shape[:-2], 2, -1) if x.shape[-2] == 1 else x
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(several, self._weight, self._bias, "none", [], "")
        return out[..., : x.shape[-2], :]


def prepack(model: nn.Module) -> None:
    """Replace the linear layers of a bf16 or float32 model on a CPU with packed ones; leaves other models alone."""
    weight = next(model.parameters())
    if weight.device.type != "cpu" or weight.dtype not in _DTYPES:
        return
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, PackedLinear(child))
