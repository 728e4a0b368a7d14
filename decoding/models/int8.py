"""Linear layers of 8-bit integers for a CPU: half the bytes of bf16 to read, by AMX or VNNI instructions where
there are any.

Weights have one scale for each output channel, chosen once; activations one for each token, chosen as they come (W8A8,
dynamic). The products are summed in 32-bit integers, which is exact. So the result of a token is the same bits whatever
tokens share the product, unlike in floating point.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from decoding.models.onnx_graph import FLOAT, ORT, UINT8, Graph
from decoding.models.packing import PackedLayer

_LARGEST = 127
# ONNX Runtime multiplies unsigned by signed bytes: activations are moved up by this, and it takes that off again.
_ZERO_POINT = 128
# Rows of a weight that are quantized together: the output layer alone would take half a gigabyte in float32.
_ROWS = 16384
# Smaller than any scale: for a channel of zeros.
_TINY = 1e-12

ZERO_POINTS = "zero_points"
"""The input of every graph with a product: the zero point of each token, uint8 [N]."""


def make_zero_points(n: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return the input `ZERO_POINTS` for n tokens."""
    return np.full(n, _ZERO_POINT, dtype=np.uint8)


def add_linear(graph: Graph, x: str, layer: nn.Linear) -> str:
    """Add x @ weight.T + bias in 8-bit integers to a graph: [N, out] for x [N, in], both float32."""
    # A row of zeros has the scale 0: whatever its quantized numbers are, the product is multiplied by 0 in the end.
    largest = graph.add("ReduceMax", graph.add("Abs", x), graph.constant([1]), keepdims=0)
    scale = graph.add("Div", largest, graph.constant(np.float32(_LARGEST)))
    weights, channels = quantize(layer.weight.detach())
    out = graph.add(
        "MatMulIntegerToFloat",
        graph.add("QuantizeLinear", x, scale, ZERO_POINTS, axis=0),
        graph.weight(weights.T.contiguous().numpy()),
        graph.constant(np.float32(1)),
        graph.constant(channels.flatten().numpy()),
        graph.constant(np.uint8(_ZERO_POINT)),
        graph.constant(np.int8(0)),
        domain=ORT,
    )
    out = graph.add("Mul", out, graph.add("Unsqueeze", scale, graph.constant([1])))
    return out if layer.bias is None else graph.add("Add", out, graph.constant(layer.bias.detach().float().numpy()))


class Int8Linear(PackedLayer):
    """Computes about what `nn.Linear` computes, in 8-bit integers."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        graph = Graph(x=(FLOAT, ["N", layer.in_features]), zero_points=(UINT8, ["N"]))
        self._compiled = graph.compile(add_linear(graph, "x", layer))
        self._n_bytes = count_bytes(layer)

    @property
    def n_bytes(self) -> int:
        """The bytes of the weight and what belongs to it."""
        return self._n_bytes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x @ weight.T + bias, [..., N, out], for x [..., N, in]. A token's result does not depend on N."""
        tokens = x.float().flatten(0, -2)
        (out,) = self._compiled({"x": tokens.contiguous().numpy(), ZERO_POINTS: make_zero_points(len(tokens))})
        return out.to(x.dtype).view(*x.shape[:-1], -1)


def count_bytes(layer: nn.Linear) -> int:
    """Return the bytes that a layer takes in 8-bit integers, with its scales and its bias."""
    return layer.weight.numel() + 4 * layer.out_features * (1 if layer.bias is None else 2)


def quantize(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (int8 values [out, in], float32 scales [out, 1]) with values * scales about equal to the weight."""
    parts = [_quantize(part) for part in torch.split(weight, _ROWS)]
    return torch.cat([values for values, _ in parts]), torch.cat([scale for _, scale in parts])


def _quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.float()
    scale = x.abs().amax(dim=-1, keepdim=True).clamp_(min=_TINY).div_(_LARGEST)
    return x.div(scale).round_().to(torch.int8), scale


def is_exact() -> bool:
    """Return whether the products of this CPU are exact.

    Where pairs of products are added in 16 bits, they overflow (`onnx_graph.CompiledGraph` avoids it on x86).
    """
    rows = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]).repeat(1, 64)
    layer = nn.Linear(rows.shape[1], len(rows), bias=False)
    layer.weight = nn.Parameter(rows, requires_grad=False)
    return torch.allclose(Int8Linear(layer)(rows), rows @ rows.T, rtol=1e-5, atol=1e-5)
