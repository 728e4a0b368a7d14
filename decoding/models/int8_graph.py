"""Llama and Qwen2 in 8-bit integers: a whole forward, attention and cache included, is one graph of ONNX Runtime.

So one pool of threads computes everything, and between its operations no thread sleeps. Numbers between the products,
keys and values are float32. The graph writes keys and values into the caller's buffers in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from decoding.models import int8
from decoding.models.fusion import Part
from decoding.models.graph_rows import GraphRows
from decoding.models.onnx_graph import FLOAT, INT64, ORT, UINT8, Graph
from decoding.models.packing import Packed, replace_linears


class Int8Graph:
    """The layers and the output layer of a model, quantized; its own linear layers are released."""

    dtype = torch.float32

    def __init__(self, model: Any) -> None:
        layers = model.model.layers
        self.head_size: int = layers[0].self_attn.head_dim
        self.n_keys: int = model.config.num_key_value_heads
        self.group: int = model.config.num_attention_heads // self.n_keys
        self.windows: list[int | None] = [getattr(layer.self_attn, "sliding_window", None) for layer in layers]
        self._width: int = model.config.hidden_size
        self._n_logits: int = model.lm_head.out_features
        graph = Graph(**self._inputs())
        self._build(graph, model)
        self._compiled = graph.compile(self._logits, *self._caches, *self._taps)
        replace_linears(model, Released)

    def __call__(
        self,
        x: torch.Tensor,  # [N, H]
        cos: torch.Tensor,  # [N, D]
        sin: torch.Tensor,  # [N, D]
        rows: GraphRows,
        caches: Sequence[tuple[torch.Tensor, torch.Tensor]],  # of each layer, [R, Hkv, S, D]
        keep: torch.Tensor | None,
        taps: Sequence[int],
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return logits [N, V], of the tokens at `keep` if it is given, and the inputs [N, H] of the layers `taps`.

        Writes the tokens' keys and values into `caches`.
        """
        n, half = len(x), self.head_size // 2
        keep = torch.arange(n) if keep is None else keep
        feeds = {
            "x": x,
            # ONNX Runtime looks the rotation up by index, and takes one half, since the other is the same.
            "positions": torch.arange(n)[None],
            "cos": cos[:, :half].contiguous(),
            "sin": sin[:, :half].contiguous(),
            "gather": rows.gather,
            "scatter": rows.scatter,
            "write": rows.write,
            "keep": keep,
            int8.ZERO_POINTS: int8.zero_points(n),
            _KEPT_ZERO_POINTS: int8.zero_points(len(keep)),
            **{_mask(window): mask for window, mask in rows.masks.items()},
        }
        logits = torch.empty(len(keep), self._n_logits)
        results = {self._logits: logits}
        for i, pair in enumerate(caches):
            for kind, written, buffer in zip(_CACHES, self._caches[2 * i : 2 * i + 2], pair, strict=True):
                feeds[f"{kind}{i}"] = results[written] = buffer
        tapped = {tap: torch.empty(n, self._width) for tap in taps if tap}
        self._compiled.write(feeds, results | {self._taps[tap - 1]: at for tap, at in tapped.items()})
        return logits, [tapped[tap] if tap else x for tap in taps]

    def _inputs(self) -> dict[str, tuple[int, list[int | str]]]:
        half = self.head_size // 2
        cache: list[int | str] = ["R", self.n_keys, "S", self.head_size]
        return {
            "x": (FLOAT, ["N", self._width]),
            "positions": (INT64, [1, "N"]),
            "cos": (FLOAT, ["N", half]),
            "sin": (FLOAT, ["N", half]),
            "gather": (INT64, ["R", "T"]),
            "scatter": (INT64, ["N"]),
            "write": (INT64, ["W", 3]),
            "keep": (INT64, ["K"]),
            int8.ZERO_POINTS: (UINT8, ["N"]),
            _KEPT_ZERO_POINTS: (UINT8, ["K"]),
            **{_mask(window): (FLOAT, ["R", 1, "M", "S"]) for window in set(self.windows)},
            **{f"{kind}{i}": (FLOAT, cache) for i in range(len(self.windows)) for kind in _CACHES},
        }

    def _build(self, graph: Graph, model: Any) -> None:
        layers, x = model.model.layers, "x"
        self._caches: list[str] = []
        self._taps: list[str] = []
        normed = _norm(graph, x, layers[0].input_layernorm)
        for i, (layer, after) in enumerate(pairwise([*layers, None])):
            added = int8.linear(graph, self._attention(graph, normed, i, layer.self_attn), layer.self_attn.o_proj)
            normed, x = _add_and_norm(graph, x, added, layer.post_attention_layernorm)
            added = _mlp(graph, normed, layer.mlp)
            if after is not None:
                normed, x = _add_and_norm(graph, x, added, after.input_layernorm)
                self._taps.append(x)
        kept = graph.add("Gather", graph.add("Add", x, added), "keep", axis=0)
        normed = _norm(graph, kept, model.model.norm)
        self._logits = int8.linear(graph, normed, model.lm_head, zero_points=_KEPT_ZERO_POINTS)

    def _attention(self, graph: Graph, normed: str, i: int, attention: Any) -> str:
        """Add the attention of layer `i` up to its output projection, [N, Hq * D]."""
        size, n_keys, width = self.head_size, self.n_keys, self.group * self.head_size
        joint = int8.linear(graph, normed, _joint(attention.q_proj))
        sizes = graph.constant([n_keys * (width + size), n_keys * size])
        unrotated, values = graph.add_many("Split", 2, joint, sizes, axis=1)
        unrotated = graph.add("Unsqueeze", unrotated, graph.constant([0]))
        rotated = graph.add("RotaryEmbedding", unrotated, "positions", "cos", "sin", domain=ORT)
        queries, keys = graph.add_many("Split", 2, rotated, graph.constant([n_keys * width, n_keys * size]), axis=2)
        each = graph.constant([-1, size])
        for kind, new in zip(_CACHES, (keys, values), strict=True):
            self._caches.append(graph.add("ScatterND", f"{kind}{i}", "write", graph.add("Reshape", new, each)))
        # The queries of all heads that share a key-value head are one tile, so that keys are read once for them.
        rectangle = graph.add("Gather", graph.add("Squeeze", queries, graph.constant([0])), "gather", axis=0)
        rectangle = graph.add("Reshape", rectangle, graph.constant([0, 0, n_keys, width]))
        tile = graph.add("Transpose", rectangle, perm=[0, 2, 1, 3])  # [R, Hkv, T, g * D]
        tile = graph.add("Reshape", tile, graph.constant([0, 0, -1, size]))
        window = _mask(self.windows[i])
        out = graph.add("Attention", tile, *self._caches[-2:], window, scale=float(attention.scaling))
        out = graph.add("Reshape", out, graph.constant([0, 0, -1, width]))
        out = graph.add("Reshape", graph.add("Transpose", out, perm=[0, 2, 1, 3]), graph.constant([-1, n_keys * width]))
        return graph.add("Gather", out, "scatter", axis=0)


class Released(Packed):
    """Replaces a linear layer whose weight is now in a graph."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._n_bytes = int8.n_bytes(layer)

    @property
    def n_bytes(self) -> int:
        """The bytes that the layer takes in its graph."""
        return self._n_bytes


_CACHES = "keys", "values"
_KEPT_ZERO_POINTS = "kept_zero_points"


def _mask(window: int | None) -> str:
    return "mask" if window is None else f"mask{window}"


def _joint(part: Part) -> nn.Linear:
    return part.fused.linear


def _mlp(graph: Graph, x: str, mlp: Any) -> str:
    both = int8.linear(graph, x, _joint(mlp.gate_proj))
    size = mlp.down_proj.in_features
    gate, up = graph.add_many("Split", 2, both, graph.constant([size, size]), axis=1)
    silu = graph.add("QuickGelu", gate, domain=ORT, alpha=1.0)
    return int8.linear(graph, graph.add("Mul", silu, up), mlp.down_proj)


def _norm(graph: Graph, x: str, norm: Any) -> str:
    weight = graph.constant(norm.weight.detach().float().numpy())
    return graph.add("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=norm.variance_epsilon)


def _add_and_norm(graph: Graph, x: str, added: str, norm: Any) -> tuple[str, str]:
    """Return the names of the norm of x + added, and of x + added."""
    weight = graph.constant(norm.weight.detach().float().numpy())
    normed, _, _, total = graph.add_many(
        "SkipSimplifiedLayerNormalization", 4, x, added, weight, domain=ORT, epsilon=norm.variance_epsilon
    )
    return normed, total
