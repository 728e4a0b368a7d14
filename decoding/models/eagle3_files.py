"""The files of EAGLE-3 heads: reads what EAGLE, SpecForge and speculators publish, writes what vLLM and SGLang load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import LlamaConfig

from decoding.models.eagle3 import Eagle3, Eagle3Shape
from decoding.models.eagle3_config import CONFIG, TAP_IDS, HeadConfig, parse, refused
from decoding.models.errors import ModelError, first_line
from decoding.models.head_checks import require_sound
from decoding.models.tensor_files import save_tensors

WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"
_FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
_INTEGERS = (torch.int64, torch.int32, torch.int16)


def read(folder: Path, target: LlamaConfig) -> Eagle3:
    """Return the head in a folder, in float32 on the CPU; `target` is the configuration of the model that it is for.

    Raises ModelError with a sentence for anything that is not an EAGLE-3 head, or one for a model of another shape.
    """
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise refused(f"its {CONFIG} cannot be read ({first_line(error)})") from error
    config = parse(text, target)
    weights = _weights(folder)
    shape = _shape(config, weights, target)
    t2d = weights.pop("t2d", None)
    if "d2t" not in weights and shape.n_drafted == target.vocab_size:
        weights["d2t"] = torch.zeros(shape.n_drafted, dtype=torch.int64)
    with torch.device("meta"):  # takes no memory, whatever the sizes that the configuration names
        _require_fit(weights, Eagle3(shape).state_dict())
    head = Eagle3(shape)
    head.load_state_dict({name: weights[name].to(own.dtype) for name, own in head.state_dict().items()})
    require_sound(head, target.vocab_size, "the target")
    if t2d is not None and not torch.equal(t2d.nonzero().flatten(), head.token_ids.sort().values):
        raise refused("its tensors d2t and t2d name different tokens")
    return head.eval().requires_grad_(False)


def write(head: Eagle3, folder: Path, target: LlamaConfig) -> None:
    """Write a head into a folder, in bfloat16, with the names of published heads."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.bfloat16() if tensor.is_floating_point() else tensor for name, tensor in _state(head).items()}
    t2d = torch.zeros(target.vocab_size, dtype=torch.bool)
    t2d[head.token_ids.cpu()] = True
    save_tensors({**state, "t2d": t2d}, folder / WEIGHTS)
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
        TAP_IDS: list(shape.taps),
        "eagle_config": {"use_aux_hidden_state": True, TAP_IDS: [tap - 1 for tap in shape.taps]},
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _state(head: Eagle3) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in head.state_dict().items()}


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of a folder by their names in `Eagle3`, each of a dtype that its name may have."""
    file = next((folder / name for name in (WEIGHTS, PICKLED) if (folder / name).is_file()), None)
    if file is None:
        raise refused(f"it has neither {WEIGHTS} nor {PICKLED}")
    try:
        loaded: Any = (
            load_file(file) if file.name == WEIGHTS else torch.load(file, map_location="cpu", weights_only=True)
        )
    except Exception as error:  # a damaged pickle can raise anything
        raise refused(f"its {file.name} cannot be read ({first_line(error)})") from error
    if not isinstance(loaded, dict) or not all(isinstance(name, str) for name in loaded):
        raise refused(f"its {file.name} does not hold tensors by name")
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in loaded.items():
        ours = _our_name(name)
        if ours in weights:
            raise refused(f"its {file.name} has the tensor {ours} twice")
        weights[ours] = _dense(name, tensor)
    return weights


def _dense(name: str, tensor: Any) -> torch.Tensor:
    """The tensor, if it is one with values in memory and of a dtype that a tensor of this name may have."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise refused(f"{name} is not a dense tensor")
    if tensor.dtype not in {"d2t": _INTEGERS, "t2d": (torch.bool, *_INTEGERS)}.get(name, _FLOATS):
        raise refused(f"its tensor {name} has the dtype {str(tensor.dtype).removeprefix('torch.')}")
    return tensor.detach()


def _our_name(name: str) -> str:
    """The name in `Eagle3` of a weight: speculators calls the layer `layers.0`."""
    name = name.removeprefix("model.")
    return name.replace("layers.0.", "midlayer.", 1) if name.startswith("layers.0.") else name


def _shape(config: HeadConfig, weights: Mapping[str, torch.Tensor], target: LlamaConfig) -> Eagle3Shape:
    layer, taps = config.layer, config.taps
    fc, lm_head, k_proj = (
        _matrix(weights, f"{name}.weight") for name in ("fc", "lm_head", "midlayer.self_attn.k_proj")
    )
    layer.num_key_value_heads = config.n_kv_heads or k_proj.shape[0] // layer.head_dim
    if layer.num_key_value_heads < 1 or layer.num_attention_heads % layer.num_key_value_heads:
        raise refused(
            f"its {layer.num_attention_heads} query heads cannot share {layer.num_key_value_heads} key-value heads"
        )
    layer.attention_bias = "midlayer.self_attn.q_proj.bias" in weights
    has_embedding = "embed_tokens.weight" in weights
    if fc.shape[1] != len(taps) * target.hidden_size:
        raise ModelError(
            f"the head's fc.weight reads {fc.shape[1]} numbers of a token, and the target's {len(taps)} layers of"
            f" {target.hidden_size} give {len(taps) * target.hidden_size}: it is for another model."
        )
    if not has_embedding and layer.hidden_size != target.hidden_size:
        raise ModelError(
            f"the head has no embedding, a hidden_size of {layer.hidden_size}, and the target's is"
            f" {target.hidden_size}: it is for another model."
        )
    if config.n_drafted not in (None, lm_head.shape[0]):
        raise refused(f"draft_vocab_size is {config.n_drafted}, and its lm_head has {lm_head.shape[0]} rows")
    return Eagle3Shape(
        layer,
        taps,
        target.hidden_size,
        n_drafted=lm_head.shape[0],
        has_embedding=has_embedding,
        norm_before_fc="fc_norm.weight" in weights,
        norm_before_residual=config.norm_before_residual,
        norm_output=config.norm_output,
    )


def _matrix(weights: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    if name not in weights:
        raise refused(f"the tensor {name} is missing")
    if weights[name].ndim != 2 or not weights[name].numel():
        raise refused(f"its tensor {name} has the shape {list(weights[name].shape)} and must be a matrix")
    return weights[name]


def _require_fit(weights: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> None:
    """Raise ModelError that names the first tensor which is missing, unknown or of another shape than its layer has."""
    for name in sorted(wanted.keys() | weights.keys()):
        if name not in weights:
            raise refused(f"the tensor {name} is missing")
        if name not in wanted:
            raise refused(f"it has the tensor {name}, which heads of this kind do not have")
        if weights[name].shape != wanted[name].shape:
            shapes = f"{list(weights[name].shape)}, and its {CONFIG} gives {list(wanted[name].shape)}"
            raise refused(f"its tensor {name} has the shape {shapes}")
