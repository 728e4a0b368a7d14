"""The configuration of a DFlash head, as z-lab/dflash publishes it: read and checked by field.

`target_layer_ids` counts a layer's output, which is the input of the next; `HeadConfig` has inputs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlamaConfig
from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from decoding.limits import MAX_DRAFT_LENGTH
from decoding.models.cache_folders import CONFIG
from decoding.models.errors import ModelError, get_first_line

ARCHITECTURE = "DFlashDraftModel"
DFLASH_CONFIG, TAP_IDS, MASK = "dflash_config", "target_layer_ids", "mask_token_id"
_Rule = tuple[str, Callable[[Any], bool]]
"""What a value must be, in words and as a condition."""


def _require_size(largest: int) -> _Rule:
    return f"a whole number from 1 to {largest}", lambda value: type(value) is int and 1 <= value <= largest


def _require_number(largest: float) -> _Rule:
    return f"a number above 0, at most {largest:g}", lambda value: type(value) in (int, float) and 0 < value <= largest


_WIDTHS = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim")
_SWITCHES = ("mlp_bias", "attention_bias", "use_sliding_window")
_OBJECTS = ("rope_scaling", "rope_parameters", DFLASH_CONFIG)
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_WIDTHS, _require_size(2**18)),
    **dict.fromkeys(("max_position_embeddings", "draft_vocab_size"), _require_size(2**31)),
    "num_hidden_layers": _require_size(64),
    "block_size": _require_size(MAX_DRAFT_LENGTH + 1),
    "rms_norm_eps": _require_number(1.0),
    "rope_theta": _require_number(1e15),
    **dict.fromkeys(_SWITCHES, ("true or false", lambda value: type(value) is bool)),
    **dict.fromkeys(_OBJECTS, ("an object", lambda value: isinstance(value, dict))),
    "hidden_act": ("an activation function of transformers", lambda value: isinstance(value, str) and value in ACT2FN),
}
_LAYER = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act",
    "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "mlp_bias",
    "attention_bias", "num_hidden_layers",
)  # fmt: skip
_REQUIRED = ("hidden_size", "num_attention_heads", "num_hidden_layers", "block_size", DFLASH_CONFIG)


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """What a configuration says of a head; the rest of its shape shows in its weights.

    `n_kv_heads` and `n_drafted` are None where it does not say; the weights then do.
    """

    layer: LlamaConfig
    taps: tuple[int, ...]
    block: int
    mask_token: int
    n_kv_heads: int | None
    n_drafted: int | None


def make_refusal(fact: str) -> ModelError:
    """Return the error for files that are not a DFlash head; `fact` says which part is wrong."""
    return ModelError(f"this is not a DFlash head that can be used: {fact}; fetch it again, or choose another one.")


def parse(text: str, target: LlamaConfig) -> HeadConfig:
    """Return the configuration of a head for a model with the configuration `target`.

    Raises ModelError that names the first field with a value that no head has.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise make_refusal(f"its {CONFIG} is not valid JSON ({get_first_line(error)})") from error
    if not isinstance(raw, dict):
        raise make_refusal(f"its {CONFIG} is not a JSON object")
    _check(raw)
    if lacking := [name for name in _REQUIRED if raw.get(name) is None]:
        raise make_refusal(f"its {CONFIG} names no {' and no '.join(lacking)}")
    if raw["block_size"] < 2:
        raise make_refusal(f"block_size in its {CONFIG} is 1, which proposes nothing")
    kinds = raw.get("layer_types") or []
    if not isinstance(kinds, list) or raw.get("use_sliding_window") or any(kind != "full_attention" for kind in kinds):
        raise make_refusal(f"its {CONFIG} asks for attention in a sliding window, which is not supported")
    return HeadConfig(
        _parse_layer(raw, target),
        _parse_taps(raw[DFLASH_CONFIG], target.num_hidden_layers),
        raw["block_size"],
        _parse_mask_token(raw[DFLASH_CONFIG], target.vocab_size),
        raw.get("num_key_value_heads"),
        raw.get("draft_vocab_size"),
    )


def choose_usual_taps(n_layers: int) -> tuple[int, int, int]:
    """Return the layers whose inputs the heads that are trained here read, for a model of `n_layers`."""
    return min(2, n_layers - 1), n_layers // 2, max(n_layers - 3, 0)


def _check(given: Mapping[str, Any]) -> None:
    """Raise ModelError for a field whose value has the wrong type or is out of range; null stands for its absence."""
    for name, value in given.items():
        what, holds = _RULES.get(name, ("", lambda _: True))
        if value is not None and not holds(value):
            raise make_refusal(f"{name} in its {CONFIG} is {json.dumps(value)[:40]} and must be {what}")


def _parse_layer(given: Mapping[str, Any], target: LlamaConfig) -> LlamaConfig:
    fields = {name: given[name] for name in _LAYER if given.get(name) is not None}
    try:
        layer = LlamaConfig(**fields)
        layer.vocab_size = target.vocab_size
        if layer.head_dim < 2 or layer.head_dim % 2:
            raise make_refusal(
                f"its {CONFIG} gives a head_dim of {layer.head_dim}, and rotary embeddings need an even one"
            )
        ends = torch.tensor([[0, layer.max_position_embeddings - 1]])
        is_finite = all(part.isfinite().all() for part in LlamaRotaryEmbedding(layer)(torch.zeros(1), ends))
    except ModelError:
        raise
    except Exception as error:  # the many kinds of rotary embeddings check little of what they are given
        why = f"{type(error).__name__}: {get_first_line(error)}"
        raise make_refusal(f"transformers makes no rotary embedding of its {CONFIG} ({why})") from error
    if not is_finite:
        raise make_refusal(f"the rotary embedding of its {CONFIG} (rope_scaling, rope_parameters) is not finite")
    return layer


def _parse_taps(own: Mapping[str, Any], n_layers: int) -> tuple[int, ...]:
    given = own.get(TAP_IDS)
    if not isinstance(given, list) or not given or any(type(tap) is not int for tap in given):
        raise make_refusal(f"{TAP_IDS} in its {CONFIG} must be a list of layers, such as [1, 9, 17]")
    taps = tuple(tap + 1 for tap in given)
    if not all(0 <= tap < n_layers for tap in taps):
        shown = ", ".join(str(tap)[:20] for tap in taps[:8])
        raise ModelError(f"the head reads layers {shown}, and the target has {n_layers}: it is for another model.")
    return taps


def _parse_mask_token(own: Mapping[str, Any], vocab_size: int) -> int:
    token = own.get(MASK)
    if type(token) is not int or not 0 <= token < vocab_size:
        raise make_refusal(f"{MASK} in its {CONFIG} must be one of the target's {vocab_size} tokens")
    return token
