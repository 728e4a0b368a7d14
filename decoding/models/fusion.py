"""One product for the linear layers of a model that read the same input.

Queries, keys and values of a layer come from one input, and so do the gate and the up projection of its MLP. Each
product costs its dispatch, and in 8 bits the quantization of its input; small products do not use the whole machine.
"""

from __future__ import annotations

import torch
from torch import nn

_GROUPS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Children of one module, in the order in which transformers calls them, always with the same tensor."""


class FusedLinear(nn.Module):
    """Several linear layers as one, computed when the first of them is called, for all of them."""

    def __init__(self, linears: list[nn.Linear]) -> None:
        super().__init__()
        self._sizes = [linear.out_features for linear in linears]
        first = linears[0]
        has_bias = any(linear.bias is not None for linear in linears)
        self.linear = nn.Linear(first.in_features, sum(self._sizes), bias=has_bias, device="meta")
        self.linear.weight = nn.Parameter(torch.cat(tuple(linear.weight for linear in linears)), requires_grad=False)
        if has_bias:
            nothing = first.weight.new_zeros(1)
            biases = tuple(nothing.expand(one.out_features) if one.bias is None else one.bias for one in linears)
            self.linear.bias = nn.Parameter(torch.cat(biases), requires_grad=False)
        # One attribute, so that two threads which run the model at the same time cannot mix their results.
        self._computed: tuple[torch.Tensor, tuple[torch.Tensor, ...]] | None = None

    def part(self, index: int, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the layer `index` for x."""
        computed = self._computed
        if computed is None or computed[0] is not x:
            computed = self._computed = (x, self.linear(x).split(self._sizes, dim=-1))
        if index == len(self._sizes) - 1:
            self._computed = None  # nobody asks again, and it may be large
        return computed[1][index]


class FusedPart(nn.Module):
    """Stands for one of the linear layers that were fused."""

    def __init__(self, fused: FusedLinear, index: int) -> None:
        super().__init__()
        self.fused = fused
        self._index = index

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x @ weight.T + bias, [..., N, out], for x [..., N, in]."""
        return self.fused.part(self._index, x)


def fuse(model: nn.Module) -> None:
    """Fuse the groups of linear layers in a model; layers of other names or types stay as they are."""
    for module in list(model.modules()):
        for names in _GROUPS:
            linears = [one for name in names if type(one := getattr(module, name, None)) is nn.Linear]
            if len(linears) == len(names):
                fused = FusedLinear(linears)
                for index, name in enumerate(names):
                    setattr(module, name, FusedPart(fused, index))
