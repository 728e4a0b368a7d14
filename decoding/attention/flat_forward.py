"""The forward of Llama and Qwen2 written out flat: what transformers computes, in fewer operations.

On a CPU a thin layer takes less time than PyTorch needs to start its operations. Here queries, keys and values are one
product and are rotated together, a norm is one operation, and no layer builds masks, hooks or keyword arguments. Other
architectures keep their own forward. `checks/compatibility.py` compares the results with the model's own when a model
is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from decoding.attention.cache import RaggedCache
from decoding.attention.layout import Layout
from decoding.attention.ragged import ATTENTION_NAME, MaskStore, ragged_cache_attention
from decoding.attention.taps import TAPS
from decoding.models.blocks import DenseBlocks, has_blocks


class FlatForward:
    """Computes what `model(...)` does over a `RaggedCache`, by the blocks between its attentions."""

    def __init__(self, model: Any) -> None:
        self._embed = model.model.embed_tokens
        self._rotary = model.model.rotary_emb
        self._attentions = [layer.self_attn for layer in model.model.layers]
        self._blocks = DenseBlocks(model)

    @classmethod
    def of(cls, model: PreTrainedModel) -> FlatForward | None:
        """Return the flat forward of a model on a CPU with our attention, None for a model that it does not suit."""
        return cls(model) if cls.suits(model) else None

    @staticmethod
    def suits(model: PreTrainedModel) -> bool:
        """Return whether a model has a flat forward."""
        return has_blocks(model) and model.config._attn_implementation == ATTENTION_NAME

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
        x = self._embed(tokens[0])  # [N, H]
        cos, sin = self._rotary(x, layout.position[None])  # [1, N, D]
        steps = self._blocks.steps(cos[0], sin[0])
        masks = MaskStore()
        heads = steps.first(x)
        last = len(self._attentions) - 1
        inputs: dict[int, torch.Tensor] = {}
        for i, (attention, slots) in enumerate(zip(self._attentions, cache.layers, strict=True)):
            if i in taps:
                inputs[i] = x
            q, k, v = (part.transpose(0, 1)[None] for part in heads)
            keys, values = slots.update(k, v)
            window = getattr(attention, "sliding_window", None)
            attended, _ = ragged_cache_attention(
                attention, q, keys, values, None, attention.scaling, window, layout, masks
            )
            attended = attended[0].flatten(1)  # [N, Hq * D]
            if i < last:
                x, heads = steps.following(i, x, attended)
        if taps:
            cache.record(TAPS, torch.cat([inputs[tap] for tap in taps], dim=1))
        return steps.last(x, attended, keep)
