"""The forward of a model whose layers, attention included, are one graph of ONNX Runtime (`models/int8_graph.py`).

The graph computes the attention of all rows in one rectangle, over all slots of the cache's buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from decoding.attention.cache import RaggedCache
from decoding.attention.layout import Layout
from decoding.attention.taps import TAPS
from decoding.models.graph_rows import GraphRows

if TYPE_CHECKING:
    from decoding.models.int8_graph import Int8Graph

_GRAPH = "bassline_graph"


class GraphForward:
    """Computes what `model(...)` does over a `RaggedCache`, by a graph."""

    def __init__(self, model: Any) -> None:
        self._embed = model.model.embed_tokens
        self._rotary = model.model.rotary_emb
        self._graph: Int8Graph = getattr(model, _GRAPH)

    @classmethod
    def of(cls, model: PreTrainedModel) -> GraphForward | None:
        """Return the forward of a model that has a graph, None for another."""
        return cls(model) if hasattr(model, _GRAPH) else None

    @staticmethod
    def use(model: PreTrainedModel, graph: Int8Graph) -> None:
        """Let every later forward of a model be computed by this graph."""
        setattr(model, _GRAPH, graph)

    def __call__(
        self,
        tokens: torch.Tensor,
        layout: Layout,
        cache: RaggedCache,
        keep: torch.Tensor | None,
        taps: Sequence[int] = (),
    ) -> torch.Tensor:
        """Return logits [N, V] of packed tokens [1, N], of the tokens at positions `keep` only if it is given.

        Records the inputs of the layers `taps` in the cache, side by side.
        """
        x = self._embed(tokens[0]).to(self._graph.dtype)  # [N, H]
        cos, sin = self._rotary(x, layout.position[None])  # [1, N, D]
        self._initialize(cache)
        keep = None if keep is None else keep.clamp(min=0)  # a first row without tokens asks for the one before it
        at, logits, inputs = 0, [], []
        # Rows of other lengths run by themselves: padding them would cost more than reading the weights again.
        for part in layout.parts:
            here = slice(at, at + sum(part.counts))
            kept = keep if keep is None else keep[(keep >= here.start) & (keep < here.stop)] - at
            rows = slice(part.first_slot, part.first_slot + part.n_rows)
            caches = [(layer.keys[rows], layer.values[rows]) for layer in cache.layers]
            told = self._rows(part, caches)
            scores, states = self._graph(x[here], cos[0, here], sin[0, here], told, caches, kept, taps)
            logits.append(scores)
            inputs.append(states)
            at = here.stop
        if taps:
            # Between 8-bit products the stream is float32; a head that reads the taps has the model's own type.
            recorded = torch.cat([torch.cat(states, dim=1) for states in inputs])
            cache.record(TAPS, recorded.to(self._embed.weight.dtype))
        return logits[0] if len(logits) == 1 else torch.cat(logits)

    def _initialize(self, cache: RaggedCache) -> None:
        for layer in cache.layers:
            if not layer.is_initialized:
                nothing = torch.empty(1, self._graph.n_keys, 0, self._graph.head_size, dtype=self._graph.dtype)
                layer.lazy_initialization(nothing, nothing)

    def _rows(self, layout: Layout, caches: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> GraphRows:
        """Return what the graph is told about the rows of a layout over these caches."""
        n_slots, n_keys, group = caches[0][0].shape[2], self._graph.n_keys, self._graph.group
        gather, scatter = layout.gather, layout.scatter
        n_each = gather.shape[1]
        if n_each * group == 1:
            # ONNX Runtime multiplies a single row in another order of sums than several: it is computed twice.
            gather, scatter = gather.expand(-1, 2).contiguous(), 2 * scatter
        head = torch.arange(n_keys).repeat(len(layout.slot))
        token = torch.stack([layout.slot - layout.first_slot, layout.position], dim=1).repeat_interleave(n_keys, dim=0)
        position = layout.position[gather]  # [R, T]
        masks = {}
        for window in set(self._graph.windows):
            slot = torch.arange(n_slots)
            visible = slot <= position[..., None]  # [R, T, S]
            if window is not None:
                visible &= slot > position[..., None] - window
            mask = torch.zeros(visible.shape).masked_fill_(~visible, torch.finfo(torch.float32).min)
            masks[window] = mask.repeat_interleave(group, dim=1)[:, None]
        return GraphRows(gather, scatter, torch.stack([token[:, 0], head, token[:, 1]], dim=1), masks)
