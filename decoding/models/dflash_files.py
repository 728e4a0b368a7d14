"""The files of DFlash heads: reads what z-lab/dflash publishes, and writes the same with our additions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig

from decoding.models.cache_folders import CONFIG, WEIGHTS
from decoding.models.dflash import DFlash, DFlashShape, require_sound
from decoding.models.dflash_config import ARCHITECTURE, DFLASH_CONFIG, MASK, TAP_IDS, HeadConfig, make_refusal, parse
from decoding.models.errors import ModelError, get_first_line

_FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
_INTEGERS = (torch.int64, torch.int32, torch.int16)


MOST_DRAFTED = 32768
"""The tokens that a head without an output layer may propose: reading more of the target's rows costs too much time."""


def read(folder: Path, target: LlamaConfig, rows: Callable[[torch.Tensor], torch.Tensor] | None = None) -> DFlash:
    """Return the head in a folder, in float32 on the CPU; `target` is the configuration of the model that it is for.

    Published heads have no output layer of their own. Such a head gets the target's `rows` of the tokens with the
    lowest ids, which are the most frequent: byte pair encoding numbers its merges by frequency.

    Raises ModelError with a sentence for anything that is not a DFlash head, or one for a model of another shape.
    """
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise make_refusal(f"its {CONFIG} cannot be read ({get_first_line(error)})") from error
    config = parse(text, target)
    weights = _load_weights(folder)
    if "lm_head.weight" not in weights and rows is not None:
        weights["lm_head.weight"] = rows(torch.arange(min(target.vocab_size, MOST_DRAFTED)))
        weights["d2t"] = torch.zeros(len(weights["lm_head.weight"]), dtype=torch.int64)
    shape = _infer_shape(config, weights, target)
    if "d2t" not in weights and shape.n_drafted == target.vocab_size:
        weights["d2t"] = torch.zeros(shape.n_drafted, dtype=torch.int64)
    with torch.device("meta"):  # takes no memory, whatever the sizes that the configuration names
        _require_fit(weights, DFlash(shape).state_dict())
    head = DFlash(shape)
    head.load_state_dict({name: weights[name].to(own.dtype) for name, own in head.state_dict().items()})
    require_sound(head, target.vocab_size, "the target")
    return head.eval().requires_grad_(False)


def write(head: DFlash, folder: Path, target: LlamaConfig) -> None:
    """Write a head into a folder, in bfloat16, with the names of published heads."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        name: (tensor.bfloat16() if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
        for name, tensor in head.state_dict().items()
    }
    save_tensors(state, folder / WEIGHTS)
    shape = head.shape
    config = {
        **shape.layer.to_diff_dict(),
        "architectures": [ARCHITECTURE],
        "model_type": "qwen3",
        "block_size": shape.block,
        DFLASH_CONFIG: {MASK: shape.mask_token, TAP_IDS: [tap - 1 for tap in shape.taps]},
        "num_target_layers": target.num_hidden_layers,
        "vocab_size": target.vocab_size,
        "draft_vocab_size": shape.n_drafted,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _load_weights(folder: Path) -> dict[str, torch.Tensor]:
    file = folder / WEIGHTS
    if not file.is_file():
        raise make_refusal(f"it has no {WEIGHTS}")
    try:
        loaded = load_file(file)
    except Exception as error:  # a damaged file can raise anything
        raise make_refusal(f"its {WEIGHTS} cannot be read ({get_first_line(error)})") from error
    return {name: _require_dtype(name, tensor) for name, tensor in loaded.items()}


def _require_dtype(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype not in {"d2t": _INTEGERS}.get(name, _FLOATS):
        raise make_refusal(f"its tensor {name} has the dtype {str(tensor.dtype).removeprefix('torch.')}")
    return tensor


def _infer_shape(config: HeadConfig, weights: Mapping[str, torch.Tensor], target: LlamaConfig) -> DFlashShape:
    layer, taps = config.layer, config.taps
    fc, lm_head, k_proj = (
        _get_matrix(weights, f"{name}.weight") for name in ("fc", "lm_head", "layers.0.self_attn.k_proj")
    )
    layer.num_key_value_heads = config.n_kv_heads or k_proj.shape[0] // layer.head_dim
    if layer.num_key_value_heads < 1 or layer.num_attention_heads % layer.num_key_value_heads:
        raise make_refusal(
            f"its {layer.num_attention_heads} query heads cannot share {layer.num_key_value_heads} key-value heads"
        )
    layer.attention_bias = "layers.0.self_attn.q_proj.bias" in weights
    if layer.hidden_size != target.hidden_size:
        raise ModelError(
            f"the head has a hidden_size of {layer.hidden_size}, and the target's is {target.hidden_size}: it is for"
            " another model."
        )
    if fc.shape[1] != len(taps) * target.hidden_size:
        raise ModelError(
            f"the head's fc.weight reads {fc.shape[1]} numbers of a token, and the target's {len(taps)} layers of"
            f" {target.hidden_size} give {len(taps) * target.hidden_size}: it is for another model."
        )
    if config.n_drafted not in (None, lm_head.shape[0]):
        raise make_refusal(f"draft_vocab_size is {config.n_drafted}, and its lm_head has {lm_head.shape[0]} rows")

    def has(part: str) -> bool:
        return any(part in name for name in weights)

    return DFlashShape(
        layer,
        taps,
        config.block,
        config.mask_token,
        n_drafted=lm_head.shape[0],
        has_head_norms=has("self_attn.q_norm.") or has("self_attn.k_norm."),
        reads_anchor=has("anchor."),
        markov_rank=_get_matrix(weights, "markov_head.markov_w2.weight").shape[1] if has("markov_head.") else 0,
        has_confidence=has("confidence_head."),
    )


def _get_matrix(weights: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    if name not in weights:
        raise make_refusal(f"the tensor {name} is missing")
    if weights[name].ndim != 2 or not weights[name].numel():
        raise make_refusal(f"its tensor {name} has the shape {list(weights[name].shape)} and must be a matrix")
    return weights[name]


def _require_fit(weights: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> None:
    """Raise ModelError that names the first tensor which is missing, unknown or of another shape than its layer has."""
    for name in sorted(wanted.keys() | weights.keys()):
        if name not in weights:
            raise make_refusal(f"the tensor {name} is missing")
        if name not in wanted:
            raise make_refusal(f"it has the tensor {name}, which heads of this kind do not have")
        if weights[name].shape != wanted[name].shape:
            shapes = f"{list(weights[name].shape)}, and its {CONFIG} gives {list(wanted[name].shape)}"
            raise make_refusal(f"its tensor {name} has the shape {shapes}")


def save_tensors(tensors: dict[str, torch.Tensor], file: Path, metadata: dict[str, str] | None = None) -> None:
    """Write contiguous tensors into a file with the mode that the process gives to new files."""
    file.touch()
    mode = file.stat().st_mode
    save_file(tensors, file, metadata)
    file.chmod(mode)
