"""The network of a trained drafter: one pass over a block proposes several tokens (DFlash, arXiv 2602.06036).

The target's hidden states at several depths, projected, are the keys and values that every layer attends to: one for
each position that the target has read. The block is the last token, which the target has not read, and a mask for each
token to propose; its positions see all of these and each other. The mask i positions after the last token predicts
the token there.

Two additions, both from DSpark (arXiv 2607.05147), make the block a chain at the price of a tiny product a token: a
Markov head adds to a position's logits what the token before it says, and a confidence head predicts whether the token
will be accepted. A third is ours: each mask also reads the last token and the state before it (`anchor`), because
one or two layers are too few to fetch both by attention. Published checkpoints have none or some of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding

from decoding.models.blocks import QKV, Layer, apply_rms_norm
from decoding.models.errors import ModelError


@dataclass(frozen=True, slots=True)
class DFlashShape:
    """What distinguishes one head from another."""

    layer: LlamaConfig  # the configuration of its `num_hidden_layers` decoder layers
    taps: tuple[int, ...]  # the layers of the target whose inputs the head reads
    block: int  # B, the last token and B - 1 masks
    mask_token: int  # the target's token whose embedding the masks begin with
    n_drafted: int
    """The tokens that it can propose, its own vocabulary."""
    has_head_norms: bool = False  # of queries and keys, as in Qwen3
    reads_anchor: bool = True
    markov_rank: int = 0  # 0: without a Markov head
    has_confidence: bool = False


class _Attention(nn.Module):
    """The projections; attention itself belongs to the caller, who has the keys and values."""

    def __init__(self, shape: DFlashShape) -> None:
        super().__init__()
        config = shape.layer
        D: int = config.head_dim
        width, n, n_kv = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
        self.head_dim = D
        self.num_key_value_groups = n // n_kv
        self.scaling = D**-0.5
        bias = bool(config.attention_bias)
        self.q_proj = nn.Linear(width, n * D, bias=bias)
        self.k_proj = nn.Linear(width, n_kv * D, bias=bias)
        self.v_proj = nn.Linear(width, n_kv * D, bias=bias)
        self.o_proj = nn.Linear(n * D, width, bias=False)
        if shape.has_head_norms:
            self.q_norm = LlamaRMSNorm(D, config.rms_norm_eps)
            self.k_norm = LlamaRMSNorm(D, config.rms_norm_eps)


class _DecoderLayer(nn.Module):
    def __init__(self, shape: DFlashShape) -> None:
        super().__init__()
        width, eps = shape.layer.hidden_size, shape.layer.rms_norm_eps
        self.self_attn = _Attention(shape)
        self.mlp = LlamaMLP(shape.layer)
        self.input_layernorm = LlamaRMSNorm(width, eps)
        self.post_attention_layernorm = LlamaRMSNorm(width, eps)


class _Anchor(nn.Module):
    """What each mask reads of the last token, beside its own embedding: `masks` [B - 1, H] tells them apart."""

    def __init__(self, shape: DFlashShape) -> None:
        super().__init__()
        width = shape.layer.hidden_size
        self.norm = LlamaRMSNorm(width, shape.layer.rms_norm_eps)
        self.proj = nn.Linear(width, width, bias=False)
        self.masks = nn.Parameter(torch.zeros(shape.block - 1, width))


class _Markov(nn.Module):
    """What the token before says about the next, through a few numbers that the state of the position modulates."""

    def __init__(self, shape: DFlashShape) -> None:
        super().__init__()
        width, rank = shape.layer.hidden_size, shape.markov_rank
        self.norm = LlamaRMSNorm(width, shape.layer.rms_norm_eps)
        self.token = nn.Linear(width, rank, bias=False)
        self.state = nn.Linear(width, rank, bias=True)
        self.markov_w2 = nn.Linear(rank, shape.n_drafted, bias=False)


class DFlash(nn.Module):
    """The head. Its methods are the steps between which the caller computes attention.

    `d2t` int64 holds for each of its tokens what to add to get the target's id.
    """

    d2t: torch.Tensor

    def __init__(self, shape: DFlashShape) -> None:
        super().__init__()
        self.shape = shape
        config = shape.layer
        width, eps = config.hidden_size, config.rms_norm_eps
        self.fc = nn.Linear(width * len(shape.taps), width, bias=False)
        self.hidden_norm = LlamaRMSNorm(width, eps)
        self.layers = nn.ModuleList(_DecoderLayer(shape) for _ in range(config.num_hidden_layers))
        self.norm = LlamaRMSNorm(width, eps)
        self.lm_head = nn.Linear(width, shape.n_drafted, bias=False)
        if shape.reads_anchor:
            self.anchor = _Anchor(shape)
        if shape.markov_rank:
            self.markov_head = _Markov(shape)
        if shape.has_confidence:
            self.confidence_head = nn.Linear(width, 1)
        self.register_buffer("d2t", torch.zeros(shape.n_drafted, dtype=torch.int64))
        self._rotary = [LlamaRotaryEmbedding(config)]  # in a list: it has no weights of its own
        self.collect_layers()

    def collect_layers(self) -> None:
        """Use the linear layers that are in place now; to be called after they were exchanged."""
        self._layers = [Layer(layer) for layer in self.layers]

    @property
    def n_proposed(self) -> int:
        """K, the tokens that one pass proposes."""
        return self.shape.block - 1

    @property
    def buffer_specs(self) -> dict[Hashable, torch.Tensor]:
        """What its cache holds of a token: an empty tensor [Hkv, 0, D] by the name of the buffer."""
        layer = self.shape.layer
        empty = self.norm.weight.new_empty(layer.num_key_value_heads, 0, layer.head_dim)
        return {(name, i): empty for i in range(layer.num_hidden_layers) for name in ("keys", "values")}

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
        result: torch.Tensor = self.fc(taps)
        return result

    def context(self, features: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> list[QKV]:
        """Return for each layer the keys and values of positions that the target has read; their queries have no use.

        `features` [N, H] are these positions', `cos` and `sin` [N, 1, D] their rotary embedding.
        """
        normed = apply_rms_norm(features, self.hidden_norm)
        return [layer.compute_qkv(normed, cos, sin) for layer in self._layers]

    def inputs(self, embedded: torch.Tensor, features: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return what the first layer reads of M blocks, [M * B, H].

        `embedded` [M, H] are the last tokens, `features` [M, H] belong to the positions before them, `mask` [H] is the
        embedding of the mask token.
        """
        M, K = len(embedded), self.n_proposed
        if self.shape.reads_anchor:
            anchor = self.anchor
            read = features + anchor.proj(apply_rms_norm(embedded, anchor.norm))
            masks = mask + anchor.masks + read[:, None]
        else:
            masks = mask.expand(M, K, -1)
        return torch.cat([embedded[:, None], masks.to(embedded.dtype)], dim=1).flatten(0, 1)

    def compute_qkv(self, i: int, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> QKV:
        """Return the heads of layer i for the residual stream x [N, H], rotated by cos and sin [N, 1, D]."""
        return self._layers[i].norm_and_compute_qkv(x, cos, sin)

    def finish(self, i: int, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the output of layer i, [N, H], given what its heads attended to [N, Hq * D]."""
        return self._layers[i].finish(x, attended)

    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        """Return the states of the masks, [M, K, H], given the last layer's output of M blocks [M * B, H]."""
        return apply_rms_norm(x.view(-1, self.shape.block, x.shape[-1])[:, 1:], self.norm)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return logits [M, K, n_drafted] of the masks' states, whatever the tokens before them are."""
        result: torch.Tensor = self.lm_head(states)
        return result

    def add_markov_logits(self, logits: torch.Tensor, states: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        """Return `logits` [..., n_drafted] of masks given the tokens before them; `states` and `embedded` [..., H]."""
        if not self.shape.markov_rank:
            return logits
        markov = self.markov_head
        gate = F.silu(markov.token(apply_rms_norm(embedded, markov.norm)) + markov.state(states))
        chained: torch.Tensor = logits + markov.markov_w2(gate)
        return chained

    def confidence(self, states: torch.Tensor) -> torch.Tensor | None:
        """Return the chance [M, K] of each mask's token to be accepted if those before it are; None if not trained.

        It reads the masks' states alone, which know nothing of the tokens that are drawn from them.
        """
        if not self.shape.has_confidence:
            return None
        chances: torch.Tensor = self.confidence_head(states)[..., 0].float().sigmoid()
        return chances


def require_sound(head: DFlash, vocab_size: int, owner: str) -> None:
    """Raise ModelError unless each token of the head is another one of the `vocab_size` of `owner`, all weights finite.

    A head that names a token twice gives it two chances in its distribution q, of which the maximal rule sees one; the
    text would then not follow the target's distribution.
    """
    ids = head.token_ids
    if int(ids.min()) < 0 or int(ids.max()) >= vocab_size:
        raise ModelError(f"the head proposes tokens that {owner} does not have: it is for another model.")
    if len(twice := (ids.bincount() > 1).nonzero()):
        token = int(twice[0])
        raise ModelError(f"the head's tensor d2t names token {token} more than once: fetch or train the head again.")
    for name, tensor in head.state_dict().items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"the head's tensor {name} has values that are not finite: fetch or train the head again.")
