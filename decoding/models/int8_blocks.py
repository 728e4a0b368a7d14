"""The layers of Llama and Qwen2 in 8-bit integers: everything between two attentions is one graph.

Numbers between the products are float32. What an attention reads has the model's own type, as its cache has.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from decoding.models import int8
from decoding.models.blocks import QKV, AttentionInputs, ForwardSteps, KVLayer, apply_rms_norm
from decoding.models.int8 import FLOAT, INT64, ORT, UINT8, CompiledGraph, Graph
from decoding.models.packing import PackedLayer, replace_linears


class Int8Blocks:
    """The blocks of a model, quantized; its own linear layers are released."""

    dtype = torch.float32

    def __init__(self, model: Any) -> None:
        layers = model.model.layers
        attention = layers[0].self_attn
        self._attention_dtype: torch.dtype = model.dtype
        self._size: int = attention.head_dim
        self._n_query_heads: int = model.config.num_attention_heads
        self._n_kv_heads: int = model.config.num_key_value_heads
        self._width: int = model.config.hidden_size
        self.first = self._build(None, layers[0])
        self.following = [self._build(layer, after) for layer, after in pairwise(layers)]
        self.last = self._build(layers[-1], None)
        self.norm = model.model.norm
        # A module of the model, as in other models: so hooks see what the output layer reads (`attention/taps.py`).
        model.lm_head = self.head = int8.Int8Linear(model.lm_head)
        replace_linears(model, ReleasedLinear)

    def steps(self, cos: torch.Tensor, sin: torch.Tensor) -> ForwardSteps:
        """Return the steps of a forward with this rotary embedding of its tokens, [N, D] each."""
        return _Int8Steps(self, cos, sin)

    def split_qkv(self, rotated: torch.Tensor, values: torch.Tensor) -> QKV:
        """Return the heads of rotated queries and keys [1, N, (Hq + Hkv) D] and of values [N, Hkv D]."""
        rotated = rotated[0].to(self._attention_dtype).view(len(values), -1, self._size)
        queries, keys = torch.split(rotated, [self._n_query_heads, self._n_kv_heads], dim=1)
        return QKV(queries, keys, values.to(self._attention_dtype).view(len(values), self._n_kv_heads, self._size))

    def _build(self, layer: Any, after: Any) -> CompiledGraph:
        """The graph from the attention of `layer` up to the attention of the layer `after` it.

        Without a `layer` it begins at the embedding, and without one `after` it ends before the last norm.
        """
        inputs: dict[str, tuple[int, list[int | str]]] = {"x": (FLOAT, ["N", self._width])}
        inputs[int8.ZERO_POINTS] = (UINT8, ["N"])
        if layer is not None:
            inputs["attended"] = (FLOAT, ["N", self._n_query_heads * self._size])
        if after is not None:
            half = self._size // 2
            inputs |= {"cos": (FLOAT, ["N", half]), "sin": (FLOAT, ["N", half]), "positions": (INT64, [1, "N"])}
        graph = Graph(**inputs)
        x, outputs = "x", []
        if layer is None:
            normed = _add_norm(graph, x, after.input_layernorm)
        else:
            added = int8.add_linear(graph, "attended", layer.self_attn.o_proj)
            normed, x = _add_and_norm(graph, x, added, layer.post_attention_layernorm)
            added = _add_mlp(graph, normed, layer.mlp)
            if after is None:
                return graph.compile(graph.add("Add", x, added))
            normed, x = _add_and_norm(graph, x, added, after.input_layernorm)
            outputs.append(x)
        joint = int8.add_linear(graph, normed, after.self_attn.q_proj.fused.linear)
        sizes = graph.constant([(self._n_query_heads + self._n_kv_heads) * self._size, self._n_kv_heads * self._size])
        unrotated, values = graph.add_many("Split", 2, joint, sizes, axis=1)
        unrotated = graph.add("Unsqueeze", unrotated, graph.constant([0]))
        rotated = graph.add("RotaryEmbedding", unrotated, "positions", "cos", "sin", domain=ORT)
        return graph.compile(*outputs, rotated, values)


class _Int8Steps:
    def __init__(self, blocks: Int8Blocks, cos: torch.Tensor, sin: torch.Tensor) -> None:
        n, half = len(cos), cos.shape[1] // 2
        self._blocks = blocks
        self._zero_points = {int8.ZERO_POINTS: int8.make_zero_points(n)}
        # ONNX Runtime looks the rotation up by index, and takes one half, since the other is the same.
        self._feeds: dict[str, Any] = {
            **self._zero_points,
            "positions": np.arange(n)[None],
            "cos": cos[:, :half].contiguous().numpy(),
            "sin": sin[:, :half].contiguous().numpy(),
        }

    def first(self, x: torch.Tensor, kv_layer: KVLayer) -> AttentionInputs:
        return AttentionInputs.write(
            self._blocks.split_qkv(*self._blocks.first({"x": x.numpy(), **self._feeds})), kv_layer
        )

    def following(
        self, layer: int, x: torch.Tensor, attended: torch.Tensor, kv_layer: KVLayer
    ) -> tuple[torch.Tensor, AttentionInputs]:
        x, rotated, values = self._blocks.following[layer](
            {"x": x.numpy(), "attended": attended.float().numpy(), **self._feeds}
        )
        return x, AttentionInputs.write(self._blocks.split_qkv(rotated, values), kv_layer)

    def last(self, x: torch.Tensor, attended: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
        (x,) = self._blocks.last({"x": x.numpy(), "attended": attended.float().numpy(), **self._zero_points})
        logits: torch.Tensor = self._blocks.head(apply_rms_norm(x if keep is None else x[keep], self._blocks.norm))
        return logits


class ReleasedLinear(PackedLayer):
    """Replaces a linear layer whose weight is now in a graph."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._n_bytes = int8.count_bytes(layer)

    @property
    def n_bytes(self) -> int:
        """The bytes that the layer takes in its graph."""
        return self._n_bytes


def _add_mlp(graph: Graph, x: str, mlp: Any) -> str:
    both = int8.add_linear(graph, x, mlp.gate_proj.fused.linear)
    size = mlp.down_proj.in_features
    gate, up = graph.add_many("Split", 2, both, graph.constant([size, size]), axis=1)
    silu = graph.add("QuickGelu", gate, domain=ORT, alpha=1.0)
    return int8.add_linear(graph, graph.add("Mul", silu, up), mlp.down_proj)


def _add_norm(graph: Graph, x: str, norm: Any) -> str:
    weight = graph.constant(norm.weight.detach().float().numpy())
    return graph.add("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=norm.variance_epsilon)


def _add_and_norm(graph: Graph, x: str, added: str, norm: Any) -> tuple[str, str]:
    """Return the names of the norm of x + added, and of x + added."""
    weight = graph.constant(norm.weight.detach().float().numpy())
    normed, _, _, total = graph.add_many(
        "SkipSimplifiedLayerNormalization", 4, x, added, weight, domain=ORT, epsilon=norm.variance_epsilon
    )
    return normed, total
