"""The layers of Llama and Qwen2 as steps between two attentions, which is where a forward needs the cache.

Attention knows rows and slots; all else in a layer works on packed tokens. So a forward is: the first step, then for
each layer its attention and the step up to the next attention, then the last step.

A thin layer takes less time than its launches on a GPU. So there the sum before a norm is computed with it, queries and
keys are rotated as they are written to the cache, and the activation of the MLP is one kernel: eight launches between
two attentions. Queries, keys and values are one product, and so are gate and up (`fusion.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn
from torch.nn import functional as F
from transformers import LlamaForCausalLM, PreTrainedModel, Qwen2ForCausalLM

from decoding.models.fusion import FusedPart
from kernels.rms_norm import add_and_norm
from kernels.rotary import rotate_and_write
from kernels.silu_mul import silu_mul

_MODELS = (LlamaForCausalLM, Qwen2ForCausalLM)
Linear = Callable[[torch.Tensor], torch.Tensor]


class QKV(NamedTuple):
    """What an attention reads of N new tokens: queries [N, Hq, D], keys and values [N, Hkv, D], rotated."""

    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor


class KVLayer(Protocol):
    """The keys and values of a layer."""

    @property
    def slot(self) -> torch.Tensor:
        """Where each new token is, int64 [N]."""

    def get_pools(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the pages of keys and of values, [P, Hkv, page_size, D], for states like these [1, Hkv, N, D]."""

    def update(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write states [1, Hkv, N, D] and return what `get_pools` does."""


class AttentionInputs(NamedTuple):
    """What an attention reads: queries [N, Hq, D], and the pages of keys and values with the new ones in them."""

    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor

    @classmethod
    def write(cls, qkv: QKV, kv_layer: KVLayer) -> AttentionInputs:
        """Write keys and values where they are kept."""
        return cls(qkv.queries, *kv_layer.update(*(part.transpose(0, 1)[None] for part in qkv[1:])))


class ForwardSteps(Protocol):
    """The steps of one forward over N tokens. `x` is the residual stream, [N, H]."""

    def first(self, x: torch.Tensor, kv_layer: KVLayer) -> AttentionInputs:
        """Write the first layer's keys and values; return what its attention reads."""

    def following(
        self, layer: int, x: torch.Tensor, attended: torch.Tensor, kv_layer: KVLayer
    ) -> tuple[torch.Tensor, AttentionInputs]:
        """Return the output of `layer`, given what its heads attended to [N, Hq * D], and what the attention after it
        reads, whose keys and values are written to `kv_layer`."""

    def last(self, x: torch.Tensor, attended: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
        """Return logits [N, V] after the last layer, of the tokens at the positions `keep` only if it is given."""


class Blocks(Protocol):
    """All of a model but its embedding and its attention."""

    dtype: torch.dtype
    """The type of the residual stream."""

    def steps(self, cos: torch.Tensor, sin: torch.Tensor) -> ForwardSteps:
        """Return the steps of a forward with this rotary embedding of its tokens, [N, D] each."""


def has_blocks(model: PreTrainedModel) -> bool:
    """Return whether a model is one whose layers are written out here."""
    return type(model) in _MODELS and model.config.hidden_act == "silu"


class DenseBlocks:
    """The blocks as PyTorch computes them, by the modules' weights; fewer operations than transformers' forward."""

    def __init__(self, model: Any) -> None:
        self.dtype: torch.dtype = model.dtype
        self.layers = [Layer(layer) for layer in model.model.layers]
        self.norm = model.model.norm
        self.head: Linear = model.lm_head

    def steps(self, cos: torch.Tensor, sin: torch.Tensor) -> ForwardSteps:
        """Return the steps of a forward with this rotary embedding of its tokens, [N, D] each."""
        return _DenseSteps(self, cos[:, None], sin[:, None])


class _DenseSteps(NamedTuple):
    blocks: DenseBlocks
    cos: torch.Tensor  # [N, 1, D]
    sin: torch.Tensor  # [N, 1, D]

    def first(self, x: torch.Tensor, kv_layer: KVLayer) -> AttentionInputs:
        return AttentionInputs.write(self.blocks.layers[0].norm_and_compute_qkv(x, self.cos, self.sin), kv_layer)

    def following(
        self, layer: int, x: torch.Tensor, attended: torch.Tensor, kv_layer: KVLayer
    ) -> tuple[torch.Tensor, AttentionInputs]:
        x = self.blocks.layers[layer].finish(x, attended)
        return x, AttentionInputs.write(
            self.blocks.layers[layer + 1].norm_and_compute_qkv(x, self.cos, self.sin), kv_layer
        )

    def last(self, x: torch.Tensor, attended: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
        x = self.blocks.layers[-1].finish(x, attended)
        return self.blocks.head(apply_rms_norm(x if keep is None else x[keep], self.blocks.norm))


class Layer:
    """One decoder layer of Llama or Qwen2, before and after its attention; its gradients are PyTorch's own."""

    def __init__(self, layer: Any) -> None:
        attention = layer.self_attn
        self._size: int = attention.head_dim
        self._group: int = attention.num_key_value_groups
        self._joint = join_linears(attention.q_proj, attention.k_proj, attention.v_proj)
        self._out: Linear = attention.o_proj
        self._gate_up = join_linears(layer.mlp.gate_proj, layer.mlp.up_proj)
        self._down: Linear = layer.mlp.down_proj
        self._norms = layer.input_layernorm, layer.post_attention_layernorm
        self._head_norms = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)

    def norm_and_compute_qkv(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> QKV:
        """Return the heads of the residual stream x [N, H], rotated by cos and sin [N, 1, D]."""
        return self.compute_qkv(apply_rms_norm(x, self._norms[0]), cos, sin)

    def compute_qkv(self, normed: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> QKV:
        """Return the heads of what the attention's projections read, [N, in]."""
        heads = self._joint(normed)  # [N, (Hq + 2 Hkv) D]
        heads = heads.view(len(normed), -1, self._size)
        n_values = heads.shape[1] // (self._group + 2)
        unrotated, values = torch.split(heads, [heads.shape[1] - n_values, n_values], dim=1)
        q_norm, k_norm = self._head_norms
        if q_norm is not None:
            q, k = torch.split(unrotated, [unrotated.shape[1] - n_values, n_values], dim=1)
            unrotated = torch.cat([apply_rms_norm(q, q_norm), apply_rms_norm(k, k_norm)], dim=1)
        left, right = unrotated.chunk(2, dim=-1)
        rotated = torch.addcmul(unrotated * cos, torch.cat((-right, left), dim=-1), sin)
        queries, keys = torch.split(rotated, [rotated.shape[1] - n_values, n_values], dim=1)
        return QKV(queries, keys, values)

    def finish(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the layer's output [N, H], given the residual stream and what its heads attended to [N, Hq * D]."""
        x = x + self._out(attended)
        gate, up = self._gate_up(apply_rms_norm(x, self._norms[1])).chunk(2, dim=-1)
        return x + self._down(F.silu(gate) * up)


def apply_rms_norm(x: torch.Tensor, norm: Any) -> torch.Tensor:
    """Apply an RMSNorm, given the module with its weights, in one operation."""
    return F.rms_norm(x, norm.weight.shape, norm.weight.to(x.dtype), norm.variance_epsilon)


def join_linears(*linears: nn.Module) -> Linear:
    """Return the linear layers of one input as a function that returns their results side by side."""
    first = linears[0]
    if isinstance(first, FusedPart):
        fused: Linear = first.fused.linear
        return fused
    return lambda x: torch.cat([linear(x) for linear in linears], dim=-1)


class KernelBlocks:
    """The blocks by Triton kernels and the products of PyTorch."""

    def __init__(self, model: Any) -> None:
        self.dtype: torch.dtype = model.dtype
        self.layers = [_Layer(layer) for layer in model.model.layers]
        self.norm = model.model.norm
        self.head = model.lm_head

    def steps(self, cos: torch.Tensor, sin: torch.Tensor) -> _KernelSteps:
        """Return the steps of a forward with this rotary embedding of its tokens, [N, D] each."""
        return _KernelSteps(self, cos, sin)


class _KernelSteps(NamedTuple):
    blocks: KernelBlocks
    cos: torch.Tensor  # [N, D]
    sin: torch.Tensor  # [N, D]

    def first(self, x: torch.Tensor, kv_layer: KVLayer) -> AttentionInputs:
        layer = self.blocks.layers[0]
        return self._read(layer, _norm(x, None, layer.input_norm)[1], kv_layer)

    def following(
        self, layer: int, x: torch.Tensor, attended: torch.Tensor, kv_layer: KVLayer
    ) -> tuple[torch.Tensor, AttentionInputs]:
        after = self.blocks.layers[layer + 1]
        x, normed = self._finish(layer, x, attended, after.input_norm)
        return x, self._read(after, normed, kv_layer)

    def last(self, x: torch.Tensor, attended: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
        _, normed = self._finish(len(self.blocks.layers) - 1, x, attended, self.blocks.norm)
        logits: torch.Tensor = self.blocks.head(normed if keep is None else normed[keep])
        return logits

    def _finish(
        self, index: int, x: torch.Tensor, attended: torch.Tensor, norm: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the output of a layer [N, H] and what `norm` makes of it."""
        layer = self.blocks.layers[index]
        x, normed = _norm(x, layer.out(attended), layer.mlp_norm)
        return _norm(x, layer.down(silu_mul(layer.gate_up(normed))), norm)

    def _read(self, layer: _Layer, normed: torch.Tensor, kv_layer: KVLayer) -> AttentionInputs:
        heads = layer.joint(normed)  # [N, (Hq + 2 Hkv) D]
        like = heads.new_empty(1, layer.n_kv_heads, 0, layer.head_size)
        keys, values = kv_layer.get_pools(like, like)
        return AttentionInputs(rotate_and_write(heads, self.cos, self.sin, keys, values, kv_layer.slot), keys, values)


class _Layer:
    def __init__(self, layer: Any) -> None:
        attention = layer.self_attn
        self.head_size: int = attention.head_dim
        self.n_kv_heads: int = attention.config.num_key_value_heads
        self.joint = join_linears(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = attention.o_proj
        self.gate_up = join_linears(layer.mlp.gate_proj, layer.mlp.up_proj)
        self.down = layer.mlp.down_proj
        self.input_norm, self.mlp_norm = layer.input_layernorm, layer.post_attention_layernorm


def _norm(x: torch.Tensor, added: torch.Tensor | None, norm: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return add_and_norm(x, added, norm.weight, norm.variance_epsilon)
