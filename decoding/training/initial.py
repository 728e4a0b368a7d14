"""A head before its training: its vocabulary from the collected text, its weights from the target's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig

from decoding.attention.taps import get_decoder_layers
from decoding.models.dflash import DFlash, DFlashShape
from decoding.models.errors import ModelError
from decoding.models.loaded import LoadedModel

N_DRAFTED = 8192
"""Tokens that a head can propose. The rest of a vocabulary is rare in code, and reading its weights costs time."""
N_LAYERS = 1
BLOCK = 6
"""The last token and the five that a pass proposes."""
MARKOV_RANK = 256
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


def find_most_used(texts: Iterable[torch.Tensor], vocab_size: int) -> torch.Tensor:
    """Return the ids of the tokens that texts use most, at most N_DRAFTED, ascending, int64.

    Tokens that no text uses come by their ids: byte pair encoding numbers its merges by frequency.
    """
    count: Counter[int] = Counter()
    for text in texts:
        count.update(text.tolist())
    used = [token for token, _ in count.most_common() if token < vocab_size]
    rest = (token for token in range(vocab_size) if token not in count)
    ids = (used + list(rest))[: min(N_DRAFTED, vocab_size)]
    return torch.tensor(sorted(ids), dtype=torch.int64)


def build_head(
    target: LoadedModel, taps: tuple[int, ...], ids: torch.Tensor, seed: int, n_layers: int = N_LAYERS
) -> DFlash:
    """Return a head in float32 that begins as the target's last layers over its highest tap.

    Raises ModelError for a target whose last layers are not of Llama's kind: their shapes are needed.
    """
    torch.manual_seed(seed)
    config = target.model.config.get_text_config()
    last: list[Any] = list(get_decoder_layers(target.model))[-n_layers:]
    layer = _build_layer_config(
        config, n_layers, has_bias=_get_linear(getattr(last[0], "self_attn", None), "q_proj").bias is not None
    )
    mask = min(int(config.vocab_size), target.vocab_size) - 1
    head = DFlash(DFlashShape(layer, taps, BLOCK, mask, len(ids), markov_rank=MARKOV_RANK, has_confidence=True))
    head.d2t.copy_(ids - torch.arange(len(ids)))
    with torch.no_grad():
        width = config.hidden_size
        head.fc.weight.normal_(0, 0.1 * width**-0.5)
        head.fc.weight[:, -width:] += torch.eye(width)
        own: Any
        for own, theirs in zip(head.layers, last, strict=True):
            for part, names in (("self_attn", _PROJECTIONS), ("mlp", ("gate_proj", "up_proj", "down_proj"))):
                for name in names:
                    _copy(getattr(getattr(own, part), name), _get_linear(getattr(theirs, part, None), name))
            own.input_layernorm.weight.copy_(theirs.input_layernorm.weight)
            own.post_attention_layernorm.weight.copy_(theirs.post_attention_layernorm.weight)
        head.hidden_norm.weight.copy_(last[0].input_layernorm.weight)
        head.norm.weight.copy_(_get_final_norm(target.model))
        head.lm_head.weight.copy_(read_output_rows(target, ids))
        head.anchor.proj.weight.normal_(0, 0.02)
        head.anchor.masks.normal_(0, 0.02)
        head.markov_head.markov_w2.weight.zero_()  # it has no effect at first
    return head


def read_output_rows(target: LoadedModel, ids: torch.Tensor) -> torch.Tensor:
    """Return the rows [n, H] of the output layer's weights for some tokens, in float32."""
    weight: torch.Tensor = target.model.get_output_embeddings().weight
    return weight[ids.to(weight.device)].detach().float()


def _build_layer_config(config: Any, n_layers: int, *, has_bias: bool) -> LlamaConfig:
    names = (
        *("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "rms_norm_eps"),
        *("max_position_embeddings", "vocab_size", "rope_parameters", "hidden_act"),
    )
    try:
        own = {name: getattr(config, name) for name in names}
    except AttributeError as error:
        why = f"a {config.model_type} model has no {error.name}"
        raise ModelError(f"{why}: no drafter can be trained for it.") from error
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return LlamaConfig(**own, head_dim=size, num_hidden_layers=n_layers, attention_bias=has_bias)


def _get_linear(module: nn.Module | None, name: str) -> nn.Linear:
    layer = getattr(module, name, None)
    if not isinstance(layer, nn.Linear):
        raise ModelError(f"its layers have no {name}, so no drafter can be trained for it: choose a Llama or Qwen.")
    return layer


def _copy(own: nn.Linear, theirs: nn.Linear) -> None:
    if own.weight.shape != theirs.weight.shape:
        raise ModelError("its last layer is not of Llama's kind, so no drafter can be trained for it: import one.")
    own.weight.copy_(theirs.weight)
    if own.bias is not None:
        own.bias.copy_(theirs.bias)


def _get_final_norm(model: Any) -> torch.Tensor:
    weight: torch.Tensor = model.get_decoder().norm.weight
    return weight.detach().float()
