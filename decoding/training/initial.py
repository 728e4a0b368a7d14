"""A head before its training: its vocabulary from the collected text, its weights from the target's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig

from decoding.attention.taps import decoder_layers
from decoding.models.eagle3 import Eagle3, Eagle3Shape
from decoding.models.errors import ModelError
from decoding.models.loaded import LoadedModel

N_DRAFTED = 8192
"""Tokens that a head can propose. The rest of a vocabulary is rare in code, and reading its weights costs time."""
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


def most_used(texts: Iterable[torch.Tensor], vocab_size: int, n: int = N_DRAFTED) -> torch.Tensor:
    """Return the ids of the `n` tokens that texts use most, ascending, int64 [n].

    Tokens that no text uses come by their ids: byte pair encoding numbers its merges by frequency.
    """
    count: Counter[int] = Counter()
    for text in texts:
        count.update(text.tolist())
    used = [token for token, _ in count.most_common() if token < vocab_size]
    rest = (token for token in range(vocab_size) if token not in count)
    ids = (used + list(rest))[: min(n, vocab_size)]
    return torch.tensor(sorted(ids), dtype=torch.int64)


def new_head(target: LoadedModel, taps: tuple[int, ...], ids: torch.Tensor, seed: int) -> Eagle3:
    """Return a head in float32 that begins as the target's last layer over its highest tap.

    Raises ModelError for a target whose last layer is not of Llama's kind: its shapes are needed.
    """
    torch.manual_seed(seed)
    config = target.model.config.get_text_config()
    head = Eagle3(Eagle3Shape(_layer_config(config), taps, config.hidden_size, len(ids)))
    head.d2t.copy_(ids - torch.arange(len(ids)))
    last: Any = decoder_layers(target.model)[-1]
    with torch.no_grad():
        width = config.hidden_size
        head.fc.weight.normal_(0, 0.1 * width**-0.5)
        head.fc.weight[:, -width:] += torch.eye(width)
        for name in _PROJECTIONS:
            own, theirs = getattr(head.midlayer.self_attn, name), _weight(last.self_attn, name)
            own.weight.normal_(0, 0.02)  # the columns that read the token's embedding
            own.weight[:, -theirs.shape[1] :] = theirs
        for name in ("gate_proj", "up_proj", "down_proj"):
            getattr(head.midlayer.mlp, name).weight.copy_(_weight(last.mlp, name))
        head.midlayer.hidden_norm.weight.copy_(last.input_layernorm.weight)
        head.midlayer.post_attention_layernorm.weight.copy_(last.post_attention_layernorm.weight)
        head.norm.weight.copy_(_final_norm(target.model))
        head.lm_head.weight.copy_(output_rows(target, ids))
    return head


def output_rows(target: LoadedModel, ids: torch.Tensor) -> torch.Tensor:
    """Return the rows [n, H] of the output layer's weights for some tokens, in float32."""
    weight: torch.Tensor = target.model.get_output_embeddings().weight
    return weight[ids.to(weight.device)].detach().float()


def _layer_config(config: Any) -> LlamaConfig:
    shared = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "rms_norm_eps")
    rest = ("max_position_embeddings", "vocab_size", "rope_parameters", "hidden_act")
    try:
        own = {name: getattr(config, name) for name in (*shared, *rest)}
    except AttributeError as error:
        why = f"a {config.model_type} model has no {error.name}"
        raise ModelError(f"{why}: no drafter can be trained for it.") from error
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return LlamaConfig(**own, head_dim=size, num_hidden_layers=1, attention_bias=False)


def _weight(module: nn.Module, name: str) -> torch.Tensor:
    layer = getattr(module, name, None)
    if not isinstance(layer, nn.Linear):
        raise ModelError(f"its layers have no {name}, so no drafter can be trained for it: choose a Llama or Qwen.")
    return layer.weight.detach().float()


def _final_norm(model: Any) -> torch.Tensor:
    weight: torch.Tensor = model.get_decoder().norm.weight
    return weight.detach().float()
