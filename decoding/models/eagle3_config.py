"""The configuration of an EAGLE-3 head, as EAGLE, SpecForge and speculators publish it: read and checked by field.

Published configurations name the tapped layers in two ways. `eagle_aux_hidden_state_layer_ids` at the top counts a
layer's input; inside `eagle_config`, SpecForge counts a layer's output, which is the input of the next. `HeadConfig`
has inputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlamaConfig
from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from decoding.models.errors import ModelError, first_line

CONFIG = "config.json"
TAP_IDS = "eagle_aux_hidden_state_layer_ids"
_LARGEST = 2**18
_SIZES = {
    "hidden_size": _LARGEST,
    "intermediate_size": _LARGEST,
    "num_attention_heads": _LARGEST,
    "num_key_value_heads": _LARGEST,
    "head_dim": _LARGEST,
    "max_position_embeddings": 2**31,
    "draft_vocab_size": 2**31,
}
"""Whole numbers, with the largest that is believed."""
_NUMBERS = {"rms_norm_eps": 1.0, "rope_theta": 1e15}
"""Numbers above 0, with the largest that is believed."""
_SWITCHES = ("mlp_bias", "norm_before_residual", "norm_output")
_OBJECTS = ("rope_scaling", "rope_parameters", "transformer_layer_config", "eagle_config")
_LAYER = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act",
    "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "mlp_bias",
)  # fmt: skip
_REQUIRED = ("hidden_size", "num_attention_heads")


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """What a configuration says of a head: its layer, the tapped layers, and the flags of `Eagle3Shape`.

    `n_kv_heads` and `n_drafted` are None where it does not say; the weights then do.
    """

    layer: LlamaConfig
    taps: tuple[int, ...]
    n_kv_heads: int | None
    n_drafted: int | None
    norm_before_residual: bool
    norm_output: bool


def refused(fact: str) -> ModelError:
    """Return the error for files that are not an EAGLE-3 head; `fact` says which part is wrong."""
    return ModelError(f"this is not an EAGLE-3 head that can be used: {fact}; fetch it again, or choose another one.")


def parse(text: str, target: LlamaConfig) -> HeadConfig:
    """Return the configuration of a head for a model with the configuration `target`.

    Raises ModelError that names the first field with a value that no head has.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refused(f"its {CONFIG} is not valid JSON ({first_line(error)})") from error
    if not isinstance(raw, dict):
        raise refused(f"its {CONFIG} is not a JSON object")
    _check(raw)
    given = raw.get("transformer_layer_config") or raw
    _check(given)
    return HeadConfig(
        _layer(given, target),
        _taps(raw, target.num_hidden_layers),
        given.get("num_key_value_heads"),
        raw.get("draft_vocab_size"),
        bool(raw.get("norm_before_residual")),
        bool(raw.get("norm_output")),
    )


def usual_taps(n_layers: int) -> tuple[int, int, int]:
    """Return the layers whose inputs EAGLE's own heads read, for a model of `n_layers`."""
    return min(2, n_layers - 1), n_layers // 2, max(n_layers - 3, 0)


def _check(given: Mapping[str, Any]) -> None:
    """Raise ModelError for a field whose value has the wrong type or is out of range; null stands for its absence."""

    def require(name: str, what: str, *, holds: bool) -> None:
        if not holds:
            raise refused(f"{name} in its {CONFIG} is {json.dumps(given[name])[:40]} and must be {what}")

    for name in [name for name, value in given.items() if value is not None]:
        value = given[name]
        if name in _SIZES:
            what = f"a whole number from 1 to {_SIZES[name]}"
            require(name, what, holds=type(value) is int and 1 <= value <= _SIZES[name])
        elif name in _NUMBERS:
            is_number = type(value) in (int, float)
            require(
                name, f"a number above 0, at most {_NUMBERS[name]:g}", holds=is_number and 0 < value <= _NUMBERS[name]
            )
        elif name in _SWITCHES:
            require(name, "true or false", holds=type(value) is bool)
        elif name in _OBJECTS:
            require(name, "an object", holds=isinstance(value, dict))
        elif name == "hidden_act":
            require(name, "an activation function of transformers", holds=isinstance(value, str) and value in ACT2FN)


def _layer(given: Mapping[str, Any], target: LlamaConfig) -> LlamaConfig:
    if lacking := [name for name in _REQUIRED if given.get(name) is None]:
        raise refused(f"its {CONFIG} names no {' and no '.join(lacking)}")
    fields = {name: given[name] for name in _LAYER if given.get(name) is not None}
    try:
        layer = LlamaConfig(**fields)
        layer.vocab_size = target.vocab_size
        if layer.head_dim < 2 or layer.head_dim % 2:
            raise refused(f"its {CONFIG} gives a head_dim of {layer.head_dim}, and rotary embeddings need an even one")
        ends = torch.tensor([[0, layer.max_position_embeddings - 1]])
        is_finite = all(part.isfinite().all() for part in LlamaRotaryEmbedding(layer)(torch.zeros(1), ends))
    except ModelError:
        raise
    except Exception as error:  # the many kinds of rotary embeddings check little of what they are given
        why = f"{type(error).__name__}: {first_line(error)}"
        raise refused(f"transformers makes no rotary embedding of its {CONFIG} ({why})") from error
    if not is_finite:
        raise refused(f"the rotary embedding of its {CONFIG} (rope_scaling, rope_parameters) is not finite")
    return layer


def _taps(raw: Mapping[str, Any], n_layers: int) -> tuple[int, ...]:
    """The layers whose inputs the head reads; EAGLE's own heads name none and read layers 2, n / 2 and n - 3."""
    inputs, outputs = raw.get(TAP_IDS), (raw.get("eagle_config") or {}).get(TAP_IDS)
    given = outputs if inputs is None else inputs
    if given is None:
        return usual_taps(n_layers)
    if not isinstance(given, list) or not given or any(type(tap) is not int for tap in given):
        raise refused(f"{TAP_IDS} in its {CONFIG} must be a list of layers, such as [2, 6, 9]")
    taps = tuple(given) if inputs is not None else tuple(tap + 1 for tap in given)
    if not all(0 <= tap < n_layers for tap in taps):
        shown = ", ".join(str(tap)[:20] for tap in taps[:8])
        raise ModelError(f"the head reads layers {shown}, and the target has {n_layers}: it is for another model.")
    return taps
