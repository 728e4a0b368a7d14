"""The forward of Llama and Qwen2 written out flat: what transformers computes, in fewer operations.

A thin layer takes less time than its operations take to start, on a CPU and on a GPU. Here queries, keys and values are
one product and are rotated together, a norm is one operation, and no layer builds masks, hooks or keyword arguments.
Other architectures keep their own forward. `checks/compatibility.py` compares the results with the model's own when a
model is loaded, and lets it keep its own forward where they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from decoding.attention.backends import NAMES, get_backend
from decoding.attention.ragged import MaskStore
from decoding.attention.taps import TAPS
from decoding.memory.cache import RaggedCache
from decoding.memory.layout import Layout
from decoding.models.blocks import Blocks, DenseBlocks, KernelBlocks, has_blocks
from decoding.models.threads import use_all_threads

_BLOCKS = "bassline_blocks"
_FAILURE = "bassline_flat_failure"
_ATTENTIONS = NAMES["sdpa"], NAMES["native"]
# Multiplications and additions of one attention, above which waking the other threads pays, although they still
# spin when the next graph begins: some milliseconds of one thread.
_LONG_ATTENTION = 4 * 10**8


class FlatForward:
    """Computes what `model(...)` does over a `RaggedCache`, by the blocks between its attentions."""

    def __init__(self, model: Any) -> None:
        self._embed = model.model.embed_tokens
        self._rotary = model.model.rotary_emb
        self._attentions = [layer.self_attn for layer in model.model.layers]
        self._attend = ALL_ATTENTION_FUNCTIONS[model.config._attn_implementation]
        self._blocks: Blocks = getattr(model, _BLOCKS, None) or (
            DenseBlocks(model) if model.device.type == "cpu" else KernelBlocks(model)
        )

    @classmethod
    def find_for(cls, model: PreTrainedModel) -> FlatForward | None:
        """Return the flat forward of a model with our attention, None for a model that it does not suit."""
        return cls(model) if cls.suits(model) else None

    @staticmethod
    def suits(model: PreTrainedModel) -> bool:
        """Return whether a model has a flat forward, and may use it."""
        if not has_blocks(model) or get_flat_failure(model) is not None:
            return False
        if model.device.type == "cuda":
            return get_backend(model).needs_triton
        return model.config._attn_implementation in _ATTENTIONS or hasattr(model, _BLOCKS)

    @staticmethod
    def use_blocks(model: PreTrainedModel, blocks: Blocks) -> None:
        """Let every later flat forward of a model compute these blocks instead of its own."""
        setattr(model, _BLOCKS, blocks)

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
        x = self._embed(tokens[0]).to(self._blocks.dtype)  # [N, H]
        cos, sin = self._rotary(x, layout.position[None])  # [1, N, D]
        steps = self._blocks.steps(cos[0], sin[0])
        masks = MaskStore()
        read = steps.first(x, cache.layers[0])
        last = len(self._attentions) - 1
        inputs: dict[int, torch.Tensor] = {}
        for i, attention in enumerate(self._attentions):
            if i in taps:
                inputs[i] = x
            q = read.queries.transpose(0, 1)[None]
            window = getattr(attention, "sliding_window", None)
            with _use_threads(q, layout):
                attended, _ = self._attend(
                    attention, q, read.keys, read.values, None, attention.scaling, window, layout, masks
                )
            attended = attended[0].flatten(1)  # [N, Hq * D]
            if i < last:
                x, read = steps.following(i, x, attended, cache.layers[i + 1])
        if taps:
            # Between 8-bit products the stream is float32; a head that reads the taps has the model's own type.
            cache.record(TAPS, torch.cat([inputs[tap] for tap in taps], dim=1).to(self._embed.weight.dtype))
        return steps.last(x, attended, keep)


def get_flat_failure(model: PreTrainedModel) -> str | None:
    """Return why a model must not use its flat forward here; None if it may."""
    failure: str | None = getattr(model, _FAILURE, None)
    return failure


def forbid_flat_forward(model: PreTrainedModel, reason: str | None) -> None:
    """Let every later runner of a model use the forward of transformers, for this reason; None allows the flat one."""
    setattr(model, _FAILURE, reason)


def _use_threads(query: torch.Tensor, layout: Layout) -> AbstractContextManager[None]:
    """Return the context of an attention of queries [1, Hq, N, D]: all threads if it takes long, else the current ones.

    The result is the same bits: no sum is split among threads.
    """
    if query.device.type != "cpu" or layout.rows.lengths_and_counts is None:
        return nullcontext()  # in graphs only the device knows the lengths
    return use_all_threads() if 4 * query.numel() * layout.attended > _LONG_ATTENTION else nullcontext()
