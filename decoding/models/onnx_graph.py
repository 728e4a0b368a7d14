"""Small graphs of operations that ONNX Runtime computes in one call, with matrix products of 8-bit integers.

PyTorch starts one operation after the other and wakes its threads for each; for the few tokens of a decoding step that
takes as long as the operations themselves. ONNX Runtime reads 8-bit weights at the speed of the memory.
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

from decoding.models.device import cpu_multiplies_bytes
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
