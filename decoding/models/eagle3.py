"""The network of a trained drafter: one decoder layer over hidden states of the target (EAGLE-3, arXiv 2503.01840).

At position t the head reads the token at t + 1 and a feature of position t, and predicts the token at t + 2. Where the
target has been, the feature is a projection of its hidden states at three depths; beyond, while drafting, it is the
head's own output of the step before. Modules are named as in published checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding

from decoding.models.blocks import QKV, Layer, rms_norm


@dataclass(frozen=True, slots=True)
class Eagle3Shape:
    """What distinguishes one head from another; the flags have the names of published configurations."""

    layer: LlamaConfig  # the decoder layer's configuration
    taps: tuple[int, ...]  # the layers of the target whose inputs the head reads
    target_width: int  # their width, H
    n_drafted: int
    """The tokens that it can propose, its own vocabulary."""
    has_embedding: bool = False
    norm_before_fc: bool = False
    norm_before_residual: bool = False
    norm_output: bool = False


class _Attention(nn.Module):
    """The projections; attention itself belongs to the caller, who has the keys and values."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        D: int = config.head_dim
        width, n, n_kv = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
        self.head_dim = D
        self.num_key_value_groups = n // n_kv
        self.scaling = D**-0.5
        bias = bool(config.attention_bias)
        self.q_proj = nn.Linear(2 * width, n * D, bias=bias)
        self.k_proj = nn.Linear(2 * width, n_kv * D, bias=bias)
        self.v_proj = nn.Linear(2 * width, n_kv * D, bias=bias)
        self.o_proj = nn.Linear(n * D, width, bias=False)


class _DecoderLayer(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn = _Attention(config)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(width, eps)
        self.hidden_norm = LlamaRMSNorm(width, eps)
        self.post_attention_layernorm = LlamaRMSNorm(width, eps)


class Eagle3(nn.Module):
    """The head. Its methods are the steps between which the caller computes attention.

    `d2t` int64 holds for each of its tokens what to add to get the target's id.
    """

    d2t: torch.Tensor

    def __init__(self, shape: Eagle3Shape) -> None:
        super().__init__()
        self.shape = shape
        config = shape.layer
        wide = shape.target_width * len(shape.taps)
        self.fc = nn.Linear(wide, config.hidden_size, bias=False)
        self.midlayer = _DecoderLayer(config)
        self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, shape.n_drafted, bias=False)
        if shape.norm_before_fc:
            self.fc_norm = LlamaRMSNorm(wide, config.rms_norm_eps)
        if shape.has_embedding:
            self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.register_buffer("d2t", torch.zeros(shape.n_drafted, dtype=torch.int64))
        self._rotary = [LlamaRotaryEmbedding(config)]  # in a list: it has no weights of its own
        self.ready()

    def ready(self) -> None:
        """Use the linear layers that are in place now; to be called after they were exchanged."""
        self._layer = [Layer(self.midlayer)]

    @property
    def token_ids(self) -> torch.Tensor:
        """The target's id of each token that the head can propose, int64 [n_drafted]."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    def rotary(self, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rotary embedding (cos, sin) of positions [N], [N, 1, D] each."""
        cos, sin = self._rotary[0].to(position.device)(self.norm.weight, position[None])
        return cos[0][:, None], sin[0][:, None]

    def features(self, taps: torch.Tensor) -> torch.Tensor:
        """Return features [N, H] of the target's states [N, taps * H]."""
        result: torch.Tensor = self.fc(rms_norm(taps, self.fc_norm) if self.shape.norm_before_fc else taps)
        return result

    def heads(
        self, embedded: torch.Tensor, features: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, QKV]:
        """Return the residual stream [N, H] and the rotated heads of embedded tokens [N, H] with their features."""
        layer = self.midlayer
        normed = rms_norm(features, layer.hidden_norm)
        joined = torch.cat([rms_norm(embedded, layer.input_layernorm), normed], dim=-1)
        residual = normed if self.shape.norm_before_residual else features
        return residual, self._layer[0].heads(joined, cos, sin)

    def finish(self, residual: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the output [N, H], given what the heads attended to [N, Hq * D]."""
        return self._layer[0].finish(residual, attended)

    def next_features(self, output: torch.Tensor) -> torch.Tensor:
        """Return the features of the next step [N, H], given the output of this one."""
        return rms_norm(output, self.norm) if self.shape.norm_output else output

    def logits(self, output: torch.Tensor) -> torch.Tensor:
        """Return logits [N, n_drafted] of an output [N, H]."""
        result: torch.Tensor = self.lm_head(rms_norm(output, self.norm))
        return result

    def embedding_or(self, target: Any) -> Any:
        """Return the module that embeds tokens: the head's own, else the target's."""
        return self.embed_tokens if self.shape.has_embedding else target.get_input_embeddings()
