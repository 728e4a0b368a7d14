"""A published head with one thing wrong: it is read, or one sentence says what is wrong; nothing is ignored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from decoding.models import dflash_files
from decoding.models.errors import ModelError
from tests.decoding.test_dflash import ADDITIONS, IDS, PUBLISHED, TARGET, VOCAB, a_head, published
from tests.thorough import quick_first

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
CONFIG = {
    **PUBLISHED,
    "mlp_bias": False,
    "attention_bias": False,
    "use_sliding_window": False,
    "layer_types": ["full_attention", "full_attention"],
    "rope_theta": 500000.0,
    "rope_scaling": LLAMA3,
    "draft_vocab_size": 32,
    "torch_dtype": "bfloat16",
}
WRONG = (None, "text", "64", 0, -1, -(10**30), 3, 10**6, 10**30, 10**400, 0.5, 1e300, float("nan"), float("inf"), True)
WRONG += ([], [1, "2"], [[2, 6, 9]], {}, {"a": 1})  # type: ignore[assignment]
TENSORS = sorted(a_head(**ADDITIONS).state_dict())


def fields(config: dict[str, Any], *path: str) -> list[tuple[str, ...]]:
    """The paths of all fields of a configuration, including the fields of its objects."""
    found: list[tuple[str, ...]] = []
    for name, value in config.items():
        found.append((*path, name))
        if isinstance(value, dict):
            found += fields(value, *path, name)
    return found


def changed(config: dict[str, Any], path: tuple[str, ...], change: Callable[[dict[str, Any], str], None]) -> str:
    copy = json.loads(json.dumps(config))
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    change(inner, path[-1])
    return json.dumps(copy)


def read_or_refuse(folder: Path) -> str | None:
    """The sentence with which a head is refused, None if it is read; any other exception passes."""
    try:
        dflash_files.read(folder, TARGET)
    except ModelError as error:
        sentence = str(error)
        assert "\n" not in sentence
        assert sentence.endswith(".")
        assert len(sentence) < 500
        return sentence
    return None


def test_every_field_of_a_configuration_may_be_wrong(tmp_path: Path) -> None:
    published(a_head(**ADDITIONS), tmp_path, CONFIG)
    assert read_or_refuse(tmp_path) is None
    for path in fields(CONFIG):
        documents = [changed(CONFIG, path, lambda inner, name: inner.pop(name))]
        documents += [changed(CONFIG, path, lambda inner, name, v=value: inner.update({name: v})) for value in WRONG]
        for document in documents:
            (tmp_path / "config.json").write_text(document)
            read_or_refuse(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", "64"),
        ("hidden_size", 0),
        ("intermediate_size", -96),
        ("num_attention_heads", 4.0),
        ("num_key_value_heads", True),
        ("num_key_value_heads", 3),
        ("head_dim", 0),
        ("head_dim", 15),
        ("head_dim", 8),
        ("max_position_embeddings", 10**400),
        ("rms_norm_eps", float("nan")),
        ("rope_theta", -1.0),
        ("rope_scaling", []),
        ("rope_scaling", {"rope_type": "unheard of", "factor": 2.0}),
        ("rope_scaling", {**LLAMA3, "factor": "8"}),
        ("hidden_act", "unheard of"),
        ("hidden_act", ["silu"]),
        ("mlp_bias", "no"),
        ("use_sliding_window", True),
        ("layer_types", ["full_attention", "sliding_attention"]),
        ("num_hidden_layers", 1),
        ("num_hidden_layers", 10**6),
        ("block_size", 1),
        ("block_size", 1000),
        ("draft_vocab_size", 31),
        ("dflash_config", [1, 5, 8]),
        ("dflash_config", {"mask_token_id": VOCAB, IDS: [1, 5, 8]}),
        ("dflash_config", {"mask_token_id": 7, IDS: [1, "5", 8]}),
        ("dflash_config", {"mask_token_id": 7, IDS: []}),
        ("dflash_config", {IDS: [1, 5, 8]}),
    ],
)
def test_a_value_that_would_count_is_refused(field: str, value: Any, tmp_path: Path) -> None:
    published(a_head(**ADDITIONS), tmp_path, {**CONFIG, field: value})
    assert read_or_refuse(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'[["hidden_size", 64]]', b"\xff", b"[" * 100_000, b"1" * 5000])
def test_what_is_not_a_configuration_is_refused(content: bytes, tmp_path: Path) -> None:
    published(a_head(**ADDITIONS), tmp_path, CONFIG)
    (tmp_path / "config.json").write_bytes(content)
    sentence = read_or_refuse(tmp_path)
    assert sentence
    assert "config.json" in sentence


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the tensors of the head in a folder."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def infinite(tensor: torch.Tensor, value: float) -> torch.Tensor:
    damaged = tensor.clone()
    damaged.view(-1)[-1] = value
    return damaged


DAMAGES: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "missing": lambda tensor: None,
    "shorter": lambda tensor: tensor[:-1].clone(),
    "empty": lambda tensor: tensor[:0].clone(),
    "one more dimension": lambda tensor: tensor[None].clone(),
    "a scalar": lambda tensor: tensor.flatten()[0].clone(),
    "doubled": lambda tensor: torch.stack([tensor.flatten()] * 2),
    "longer": lambda tensor: torch.cat([tensor, tensor[-1:]]),
    "int8": lambda tensor: tensor.to(torch.int8),
    "complex": lambda tensor: tensor.to(torch.complex64),
    "other kind": lambda tensor: tensor.bool() if tensor.dtype != torch.bool else tensor.float(),
    "NaN": lambda tensor: infinite(tensor.float(), float("nan")),
    "infinity": lambda tensor: infinite(tensor.float(), float("inf")),
}


@pytest.mark.parametrize("damage", quick_first(DAMAGES, ["shorter"]))
def test_every_tensor_may_be_wrong(damage: str, tmp_path: Path) -> None:
    for name in TENSORS:
        published(a_head(**ADDITIONS), tmp_path, CONFIG)

        def change(weights: dict[str, Any], name: str = name) -> None:
            tensor = DAMAGES[damage](weights.pop(name))
            if tensor is not None:
                weights[name] = tensor

        rewrite(tmp_path, change)
        sentence = read_or_refuse(tmp_path)
        assert sentence is not None, name
        assert name in sentence or "lm_head" in sentence, name


@pytest.mark.parametrize(
    "extra",
    [
        "layers.0.self_attn.q_norm.weight", "layers.0.self_attn.o_proj.bias", "layers.0.self_attn.q_proj.bias",
        "layers.2.mlp.up_proj.weight", "fc.bias", "norm2.weight", "t2d.weight",
    ],
)  # fmt: skip
def test_a_tensor_that_would_be_ignored_is_refused_by_its_name(extra: str, tmp_path: Path) -> None:
    published(a_head(**ADDITIONS), tmp_path, CONFIG)
    rewrite(tmp_path, lambda weights: weights.update({extra: torch.ones(64)}))
    sentence = read_or_refuse(tmp_path)
    assert sentence
    # With a bias of q, the biases of k and v are missing; with a norm of q, the norm of k.
    assert extra.split(".")[-2] in sentence or "is missing" in sentence


@pytest.mark.parametrize("n", [0, 1, 10, 200, 2000])
def test_a_file_that_ends_early_is_refused(n: int, tmp_path: Path) -> None:
    published(a_head(**ADDITIONS), tmp_path, CONFIG)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:n])
    sentence = read_or_refuse(tmp_path)
    assert sentence
    assert file.name in sentence


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    published(a_head(**ADDITIONS), tmp_path, CONFIG)
    (tmp_path / "model.safetensors").unlink()
    assert "it has no model.safetensors" in (read_or_refuse(tmp_path) or "")


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        (torch.arange(32) // 2, "d2t names token 0 more than once"),
        (torch.arange(32) - 1, "tokens that the target does not have"),
        (torch.arange(32) + VOCAB - 31, "tokens that the target does not have"),
    ],
    ids=["a token twice", "a negative id", "an id behind the last"],
)
def test_a_map_that_is_not_one_to_one_into_the_vocabulary_is_refused(
    ids: torch.Tensor, why: str, tmp_path: Path
) -> None:
    published(a_head(**ADDITIONS), tmp_path, CONFIG)
    rewrite(tmp_path, lambda weights: weights.update(d2t=ids - torch.arange(32)))
    assert why in (read_or_refuse(tmp_path) or "")
