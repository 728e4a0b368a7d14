"""The layers of Llama and Qwen2 on a GPU: between two attentions a layer is eight launches.

A thin layer takes less time than its launches. So the sum before a norm is computed with it, queries and keys are
rotated as they are written to the cache, and the activation of the MLP is one kernel. Queries, keys and values are one
product, and so are gate and up (`fusion.py`); their biases are added by the product.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from decoding.models.blocks import AttentionInputs, KVLayer, join_linears
from kernels.rms_norm import add_and_norm
from kernels.rotary import rotate_and_write
from kernels.silu_mul import silu_mul


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
