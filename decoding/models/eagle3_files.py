"""The files of EAGLE-3 heads: reads what EAGLE, SpecForge and speculators publish, writes what vLLM and SGLang load.

Published configurations name the tapped layers in two ways. `eagle_aux_hidden_state_layer_ids` at the top counts a
layer's input; inside `eagle_config`, SpecForge counts a layer's output, which is the input of the next. `Eagle3Shape`
has inputs.
"""

from __future__ import annotations

import json
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig

from decoding.models.eagle3 import Eagle3, Eagle3Shape
from decoding.models.errors import ModelError, first_line

CONFIG, WEIGHTS, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
_IDS = "eagle_aux_hidden_state_layer_ids"
_LAYER = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act",
    "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "mlp_bias",
)  # fmt: skip


def read(folder: Path, target: LlamaConfig) -> Eagle3:
    """Return the head in a folder, in float32 on the CPU; `target` is the configuration of the model that it is for.

    Raises ModelError with a sentence for anything that is no EAGLE-3 head, or one for a model of another shape.
    """
    try:
        raw = dict(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
        weights = {_our_name(name): tensor for name, tensor in _weights(folder).items()}
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError, UnpicklingError) as error:
        raise ModelError(f"{folder} holds no drafter that can be read ({first_line(error)}).") from error
    head = Eagle3(_shape(raw, weights, target))
    weights.pop("t2d", None)  # follows from d2t
    weights.setdefault("d2t", torch.zeros(head.shape.n_drafted, dtype=torch.int64))
    try:
        head.load_state_dict({name: weights[name].to(own.dtype) for name, own in head.state_dict().items()})
    except (KeyError, RuntimeError) as error:
        raise ModelError(f"{folder} holds no EAGLE-3 head: {first_line(error)}.") from error
    ids = head.token_ids
    if int(ids.min()) < 0 or int(ids.max()) >= target.vocab_size:
        raise ModelError(f"the head in {folder} proposes tokens that the target does not have: it is for another one.")
    return head.eval().requires_grad_(False)


def write(head: Eagle3, folder: Path, target: LlamaConfig) -> None:
    """Write a head into a folder, in bfloat16, with the names of published heads."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.bfloat16() if tensor.is_floating_point() else tensor for name, tensor in _state(head).items()}
    t2d = torch.zeros(target.vocab_size, dtype=torch.bool)
    t2d[head.token_ids.cpu()] = True
    save_file({**state, "t2d": t2d}, folder / WEIGHTS)
    shape = head.shape
    config = {
        **shape.layer.to_diff_dict(),
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "vocab_size": target.vocab_size,
        "draft_vocab_size": shape.n_drafted,
        "target_hidden_size": shape.target_width,
        "norm_before_fc": shape.norm_before_fc,
        "norm_before_residual": shape.norm_before_residual,
        "norm_output": shape.norm_output,
        _IDS: list(shape.taps),
        "eagle_config": {"use_aux_hidden_state": True, _IDS: [tap - 1 for tap in shape.taps]},
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _state(head: Eagle3) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in head.state_dict().items()}


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    if (folder / WEIGHTS).is_file():
        return load_file(folder / WEIGHTS)
    loaded: dict[str, torch.Tensor] = torch.load(folder / PICKLED, map_location="cpu", weights_only=True)
    return loaded


def _our_name(name: str) -> str:
    """The name in `Eagle3` of a weight: speculators calls the layer `layers.0`."""
    name = name.removeprefix("model.")
    return name.replace("layers.0.", "midlayer.", 1) if name.startswith("layers.0.") else name


def _shape(raw: dict[str, Any], weights: dict[str, torch.Tensor], target: LlamaConfig) -> Eagle3Shape:
    given = raw.get("transformer_layer_config", raw)
    if lacking := [name for name in ("hidden_size", "num_attention_heads") if name not in given]:
        raise ModelError(f"it is no EAGLE-3 head: its {CONFIG} names no {' and no '.join(lacking)}.")
    layer = LlamaConfig(**{name: value for name, value in given.items() if name in _LAYER})
    layer.vocab_size = target.vocab_size
    try:
        fc, lm_head = weights["fc.weight"], weights["lm_head.weight"]
        n_kv = len(weights["midlayer.self_attn.k_proj.weight"]) // layer.head_dim
    except KeyError as error:
        raise ModelError(f"it is no EAGLE-3 head: {error} is missing among its weights.") from error
    layer.hidden_size, layer.num_key_value_heads = len(fc), n_kv
    layer.attention_bias = "midlayer.self_attn.q_proj.bias" in weights
    has_embedding = "embed_tokens.weight" in weights
    taps = _taps(raw, target.num_hidden_layers)
    if not all(type(tap) is int and 0 <= tap < target.num_hidden_layers for tap in taps):
        raise ModelError(
            f"the head reads layers {', '.join(map(str, taps))}, and the target has {target.num_hidden_layers}: it is"
            " for another model."
        )
    if fc.shape[1] != len(taps) * target.hidden_size or (not has_embedding and len(fc) != target.hidden_size):
        raise ModelError(
            f"the head reads {fc.shape[1]} numbers of a token, and the target's {len(taps)} layers of"
            f" {target.hidden_size} give {len(taps) * target.hidden_size}: it is for another model."
        )
    return Eagle3Shape(
        layer,
        taps,
        target.hidden_size,
        n_drafted=len(lm_head),
        has_embedding=has_embedding,
        norm_before_fc="fc_norm.weight" in weights,
        norm_before_residual=bool(raw.get("norm_before_residual")),
        norm_output=bool(raw.get("norm_output")),
    )


def _taps(raw: dict[str, Any], n_layers: int) -> tuple[int, ...]:
    """The layers whose inputs the head reads; EAGLE's own heads name none and read layers 2, n / 2 and n - 3."""
    nested = (raw.get("eagle_config") or {}).get(_IDS)
    if raw.get(_IDS):
        return tuple(raw[_IDS])
    if nested:
        return tuple(layer + 1 if type(layer) is int else layer for layer in nested)
    return usual_taps(n_layers)


def usual_taps(n_layers: int) -> tuple[int, int, int]:
    """Return the layers whose inputs EAGLE's own heads read, for a model of `n_layers`."""
    return min(2, n_layers - 1), n_layers // 2, max(n_layers - 3, 0)
