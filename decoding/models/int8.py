"""Linear layers of 8-bit integers for a CPU: half the bytes of bf16 to read, by AMX or VNNI instructions where
there are any.

Weights have one scale for each output channel, chosen once; activations one for each token, chosen as they come (W8A8,
dynamic). The products are summed in 32-bit integers, which is exact. So the result of a token is the same bits whatever
tokens share the product, unlike in floating point.

ONNX Runtime computes a graph of small operations in one call: PyTorch starts one after the other and wakes its threads
for each, which for the few tokens of a decoding step takes as long as the operations themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from decoding.models.device import cpu_multiplies_bytes
from decoding.models.packing import PackedLayer
from decoding.models.threads import count_threads

FLOAT, UINT8, INT64 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT64
# The domain of ONNX Runtime's own operations.
ORT = "com.microsoft"
# The session option for CPUs that sum products of bytes in 16 bits.
PRECISION_OPTION = "session.x64quantprecision"
# The newest format and operations that onnxruntime 1.20 reads.
_IR_VERSION = 10
_OPSET = 21


class Graph:
    """Operations in the order in which they were added. A tensor is known by its name."""

    def __init__(self, **inputs: tuple[int, list[int | str]]) -> None:
        """`inputs` are types and shapes by name; a size that varies is a word."""
        self._inputs = inputs
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._weights: dict[str, NDArray[Any]] = {}

    def constant(self, values: NDArray[Any] | list[int] | np.generic) -> str:
        """Return the name of a constant."""
        name = f"constant{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weight(self, values: NDArray[np.int8]) -> str:
        """Return the name of a large constant, which is not copied into the graph; ONNX Runtime repacks it."""
        name = f"weight{len(self._weights)}"
        self._weights[name] = values
        placed = TensorProto(name=name, dims=values.shape, data_type=TensorProto.INT8)
        placed.data_location = TensorProto.EXTERNAL
        placed.external_data.add(key="location", value="memory")
        self._constants.append(placed)
        return name

    def add(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operation of one output; return its name."""
        return self.add_many(operation, 1, *inputs, domain=domain, **attributes)[0]

    def add_many(self, operation: str, n_outputs: int, *inputs: str, domain: str = "", **attributes: Any) -> list[str]:
        """Add an operation of several outputs; return their names."""
        outputs = [f"{operation}{len(self._nodes)}_{i}" for i in range(n_outputs)]
        self._nodes.append(helper.make_node(operation, inputs, outputs, domain=domain, **attributes))
        return outputs

    def compile(self, *outputs: str) -> CompiledGraph:
        """Return the graph, ready to compute these outputs (float32)."""
        graph = helper.make_graph(
            self._nodes,
            "graph",
            [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in self._inputs.items()],
            [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
            self._constants,
        )
        operations = [helper.make_opsetid("", _OPSET), helper.make_opsetid(ORT, 1)]
        model = helper.make_model(graph, opset_imports=operations, ir_version=_IR_VERSION)
        return CompiledGraph(model.SerializeToString(), self._weights, outputs)


class CompiledGraph:
    """A graph that is called like a function. Several threads may call it at the same time."""

    def __init__(self, model: bytes, weights: Mapping[str, NDArray[Any]], outputs: tuple[str, ...]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = count_threads()
        # Grading, long attentions and drafters need the cores between two calls: threads wait actively for the next
        # operation of a graph, but not for its next call. ONNX Runtime can do so only with threads of the graph's own;
        # threads of a shared pool spin for 40 ms after a call.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        # Makes the weights unsigned, whose products are exact on every x86 CPU. ONNX Runtime would do it on CPUs with
        # VNNI or AMX too, where the faster products are exact already.
        if not cpu_multiplies_bytes():
            options.add_session_config_entry(PRECISION_OPTION, "1")
        options.log_severity_level = 3
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(each) for each in weights.values()]
        options.add_external_initializers(list(weights), values)
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._outputs = list(outputs)

    def __call__(self, feeds: Mapping[str, NDArray[Any]]) -> list[torch.Tensor]:
        """Return the outputs, float32, for the inputs by name."""
        return [torch.from_numpy(output) for output in self._session.run(self._outputs, feeds)]


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

    Where pairs of products are added in 16 bits, they overflow (`CompiledGraph` avoids it on x86).
    """
    rows = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]).repeat(1, 64)
    layer = nn.Linear(rows.shape[1], len(rows), bias=False)
    layer.weight = nn.Parameter(rows, requires_grad=False)
    return torch.allclose(Int8Linear(layer)(rows), rows @ rows.T, rtol=1e-5, atol=1e-5)
