"""The forward of Llama and Qwen2 written out flat: what transformers computes, in fewer operations.

On a CPU a thin layer takes less time than PyTorch needs to start its operations. Here queries, keys and values are one
product and are rotated together, a norm is one operation, and no layer builds masks, hooks or keyword arguments. Other
architectures keep their own forward. `checks/compatibility.py` compares the results with the model's own when a model
is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import LlamaForCausalLM, PreTrainedModel, Qwen2ForCausalLM

from decoding.attention.cache import RaggedCache
from decoding.attention.layout import Layout
from decoding.attention.ragged import ATTENTION_NAME, MaskStore, ragged_cache_attention
from decoding.models.fusion import Part

_MODELS = (LlamaForCausalLM, Qwen2ForCausalLM)
Linear = Callable[[torch.Tensor], torch.Tensor]


class FlatForward:
    """Computes what `model(...)` does over a `RaggedCache`, by the modules' weights."""

    def __init__(self, model: Any) -> None:
        self._embed = model.model.embed_tokens
        self._rotary = model.model.rotary_emb
        self._layers = [_Layer(layer) for layer in model.model.layers]
        self._norm = model.model.norm
        self._head = model.lm_head

    @classmethod
    def of(cls, model: PreTrainedModel) -> FlatForward | None:
        """Return the flat forward of a model on a CPU with our attention, None for what it does not suit."""
        suits = (
            type(model) in _MODELS
            and model.device.type == "cpu"
            and model.config._attn_implementation == ATTENTION_NAME
            and model.config.hidden_act == "silu"
        )
        return cls(model) if suits else None

    def __call__(
        self, tokens: torch.Tensor, layout: Layout, cache: RaggedCache, keep: torch.Tensor | None
    ) -> torch.Tensor:
        """Return logits [N, V] of packed tokens [1, N], of those at the places `keep` only if it is given."""
        x = self._embed(tokens)  # [1, N, H]
        cos, sin = (part[:, :, None] for part in self._rotary(x, layout.position[None]))  # [1, N, 1, D]
        masks = MaskStore()
        for layer, slots in zip(self._layers, cache.layers, strict=True):
            q, k, v = layer.queries_keys_values(x, cos, sin)
            keys, values = slots.update(k, v)
            x = layer.finish(x, ragged_cache_attention(layer.attention, q, keys, values, None, layer.scaling,
                                                       layer.window, layout, masks)[0])  # fmt: skip
        if keep is not None:
            x = x[:, keep]
        logits: torch.Tensor = self._head(_rms_norm(x, self._norm))
        return logits[0]


class _Layer:
    """One decoder layer, before and after its attention."""

    def __init__(self, layer: Any) -> None:
        self.attention = layer.self_attn
        self.scaling: float = self.attention.scaling
        self.window: int | None = getattr(self.attention, "sliding_window", None)
        self._size: int = self.attention.head_dim
        self._joint = _joint(self.attention.q_proj, self.attention.k_proj, self.attention.v_proj)
        self._out: Linear = self.attention.o_proj
        self._gate_up = _joint(layer.mlp.gate_proj, layer.mlp.up_proj)
        self._down: Linear = layer.mlp.down_proj
        self._norms = layer.input_layernorm, layer.post_attention_layernorm
        self._group: int = self.attention.num_key_value_groups

    def queries_keys_values(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return q [1, Hq, N, D], k and v [1, Hkv, N, D] for x [1, N, H], rotated by cos and sin [1, N, 1, D]."""
        heads = self._joint(_rms_norm(x, self._norms[0]))  # [1, N, (Hq + 2 Hkv) D]
        heads = heads.view(*heads.shape[:2], -1, self._size)
        n_values = heads.shape[2] // (self._group + 2)
        turning, v = torch.split(heads, [heads.shape[2] - n_values, n_values], dim=2)
        left, right = turning.chunk(2, dim=-1)
        turned = torch.addcmul(turning * cos, torch.cat((-right, left), dim=-1), sin)
        q, k = torch.split(turned, [turned.shape[2] - n_values, n_values], dim=2)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

    def finish(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the layer's output [1, N, H] for its input x and what its heads attended to, [1, N, Hq, D]."""
        x = x + self._out(attended.flatten(2))
        gate, up = self._gate_up(_rms_norm(x, self._norms[1])).chunk(2, dim=-1)
        return x + self._down(F.silu(gate) * up)


def _rms_norm(x: torch.Tensor, norm: Any) -> torch.Tensor:
    return F.rms_norm(x, norm.weight.shape, norm.weight, norm.variance_epsilon)


def _joint(*linears: nn.Module) -> Linear:
    """The linear layers of one input as a function that returns their results side by side."""
    first = linears[0]
    if isinstance(first, Part):
        fused: Linear = first.fused.linear
        return fused
    return lambda x: torch.cat([linear(x) for linear in linears], dim=-1)
