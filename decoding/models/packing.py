"""Linear layers for a CPU: weights reordered once into the layout that oneDNN's kernels read.

In bf16, PyTorch otherwise reorders the weight in every call, which takes as long as the product itself for the few
tokens of a decoding step: prepacking halved the time of a step of 8 tokens on a 2-core Zen 4 machine. In float32,
PyTorch otherwise calls MKL, whose order of summation depends on the number of tokens (docs/decoding-texts.md).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

WEIGHT_IS_READ = "bassline_weight_is_read"
"""The attribute of a linear layer whose weight other code reads: it stays as it is."""


class PackedLayer(nn.Module):
    """A linear layer whose weight is in a layout that only its own kernel reads, and therefore not a parameter."""

    @property
    def n_bytes(self) -> int:
        """The bytes of the weight and what belongs to it."""
        own = [tensor for tensor in vars(self).values() if isinstance(tensor, torch.Tensor)]
        return sum(tensor.numel() * tensor.element_size() for tensor in own)


class PackedLinear(PackedLayer):
    """Computes what `nn.Linear` computes, with its weight [out, in] reordered by oneDNN."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x @ weight.T + bias, [..., N, out], for x [..., N, in]. A token's result does not depend on N."""
        # For N = 1 oneDNN sums in another order than for N >= 2, so a single token is computed twice.
        repeated = x.expand(*x.shape[:-2], 2, -1) if x.shape[-2] == 1 else x
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(repeated, self._weight, self._bias, "none", [], "")
        return out[..., : x.shape[-2], :]


def prepack(model: nn.Module) -> None:
    """Pack the linear layers of a model on a CPU if oneDNN has its dtype here. Other models stay as they are."""
    weight = next(model.parameters())
    if weight.device.type == "cpu" and weight.dtype in list_packed_dtypes():
        replace_linears(model, PackedLinear)


def list_packed_dtypes() -> tuple[torch.dtype, ...]:
    """Return the dtypes that oneDNN packs here: bf16 needs a CPU with AVX-512 or AVX-NE-CONVERT."""
    has_bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return (torch.float32, torch.bfloat16) if has_bf16 else (torch.float32,)


def replace_linears(model: nn.Module, replacement: Callable[[nn.Linear], nn.Module | None]) -> None:
    """Replace each linear layer of a model, in all modules that have it; None leaves a layer as it is."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if (
                type(child) is nn.Linear
                and not hasattr(child, WEIGHT_IS_READ)
                and (other := replacement(child)) is not None
            ):
                setattr(module, name, other)
