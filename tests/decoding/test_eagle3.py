"""Heads in the files that others publish: each layout is read, and what we write is read again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from transformers import LlamaConfig

from decoding.models import eagle3_config, eagle3_files
from decoding.models.eagle3 import Eagle3, Eagle3Shape
from decoding.models.errors import ModelError

N_LAYERS, WIDTH, VOCAB, DRAFTED = 12, 64, 300, 32
TARGET = LlamaConfig(hidden_size=WIDTH, num_hidden_layers=N_LAYERS, vocab_size=VOCAB)
LAYER = {
    "hidden_size": WIDTH,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 256,
    "hidden_act": "silu",
}


def a_head(**flags: Any) -> Eagle3:
    torch.manual_seed(0)
    config = LlamaConfig(**LAYER, vocab_size=VOCAB, num_hidden_layers=1)
    head = Eagle3(Eagle3Shape(config, (2, 6, 9), WIDTH, DRAFTED, **flags))
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_((torch.randn_like(parameter) * 0.1).bfloat16())
    head.d2t.copy_(torch.arange(DRAFTED) * 8)
    return head.eval()


def published(
    head: Eagle3, folder: Path, config: dict[str, Any], *, layer: str = "midlayer", pickled: bool = False
) -> None:
    """The head's files as others write them."""
    weights = {
        name.replace("midlayer", layer): tensor.bfloat16()
        for name, tensor in head.state_dict().items()
        if name != "d2t"
    }
    t2d = torch.zeros(VOCAB, dtype=torch.bool)
    t2d[head.token_ids] = True
    weights |= {"d2t": head.d2t, "t2d": t2d}
    folder.mkdir(exist_ok=True)
    if pickled:
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


def same(a: Eagle3, b: Eagle3) -> bool:
    theirs = b.state_dict()
    return all(torch.equal(tensor, theirs[name]) for name, tensor in a.state_dict().items())


EAGLE = {**LAYER, "architectures": ["LlamaForCausalLM"], "vocab_size": VOCAB, "draft_vocab_size": DRAFTED}
IDS = "eagle_aux_hidden_state_layer_ids"


@pytest.mark.parametrize(
    ("config", "taps"),
    [
        (EAGLE, (2, 6, 9)),
        ({**EAGLE, IDS: [1, 5, 8]}, (1, 5, 8)),
        ({**EAGLE, "eagle_config": {IDS: [1, 5, 8]}}, (2, 6, 9)),
        ({**EAGLE, IDS: [3, 4, 5], "eagle_config": {IDS: [1, 5, 8]}}, (3, 4, 5)),
    ],
    ids=["EAGLE", "vLLM", "SpecForge", "both"],
)
def test_both_ways_to_count_layers_are_read_as_inputs(
    config: dict[str, Any], taps: tuple[int, ...], tmp_path: Path
) -> None:
    published(a_head(), tmp_path, config)
    read = eagle3_files.read(tmp_path, TARGET)
    assert read.shape.taps == taps
    assert same(read, a_head())
    assert read.token_ids.tolist() == [i + 8 * i for i in range(DRAFTED)]


def test_a_pickled_head_is_read_without_running_code(tmp_path: Path) -> None:
    published(a_head(), tmp_path, EAGLE, pickled=True)
    assert same(eagle3_files.read(tmp_path, TARGET), a_head())


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("executed",))


def test_a_pickle_with_code_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published(a_head(), tmp_path, EAGLE, pickled=True)
    torch.save({"fc.weight": _Evil()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin cannot be read"):
        eagle3_files.read(tmp_path, TARGET)
    assert "executed" not in capsys.readouterr().out


def test_speculators_layout_with_an_embedding_of_its_own(tmp_path: Path) -> None:
    head = a_head(has_embedding=True, norm_before_residual=True)
    config = {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": LAYER,
        "draft_vocab_size": DRAFTED,
        "norm_before_residual": True,
        IDS: [2, 6, 9],
    }
    published(head, tmp_path, config, layer="layers.0")
    read = eagle3_files.read(tmp_path, TARGET)
    assert read.shape.norm_before_residual
    assert read.shape.has_embedding
    assert same(read, head)


@pytest.mark.parametrize("flags", [{}, {"norm_before_residual": True}, {"norm_before_fc": True}, {"norm_output": True}])
def test_what_is_written_is_read_again(flags: dict[str, bool], tmp_path: Path) -> None:
    head = a_head(**flags)
    eagle3_files.write(head, tmp_path, TARGET)
    read = eagle3_files.read(tmp_path, TARGET)
    assert same(read, head)
    assert replace(read.shape, layer=head.shape.layer) == head.shape
    config = json.loads((tmp_path / "config.json").read_text())
    assert config[IDS] == [2, 6, 9]
    assert config["eagle_config"][IDS] == [1, 5, 8]
    assert config["draft_vocab_size"] == DRAFTED
    assert load_file(tmp_path / "model.safetensors")["t2d"].sum() == DRAFTED


@pytest.mark.parametrize(
    ("layers", "width", "vocab"), [(32, 4096, 128256), (36, 2560, 151936)], ids=["Llama 3.1", "Qwen3"]
)
def test_the_shapes_of_published_heads_are_read(layers: int, width: int, vocab: int, tmp_path: Path) -> None:
    """Published sizes with all but the projection of the features cut down, which would take gigabytes."""
    config = {**LAYER, "hidden_size": width, "intermediate_size": 16, "rope_theta": 500000.0, "vocab_size": vocab}
    layer = LlamaConfig(**{**LAYER, "hidden_size": width, "intermediate_size": 16}, vocab_size=vocab)
    head = Eagle3(Eagle3Shape(layer, eagle3_config.usual_taps(layers), width, 320))
    head.d2t.copy_(torch.arange(320) * 300)
    published_config = {**config, "draft_vocab_size": 320}
    weights = {name: tensor for name, tensor in head.state_dict().items() if name != "d2t"}
    t2d = torch.zeros(vocab, dtype=torch.bool)
    t2d[head.token_ids] = True
    save_file({**weights, "d2t": head.d2t, "t2d": t2d}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(published_config))
    read = eagle3_files.read(tmp_path, LlamaConfig(hidden_size=width, num_hidden_layers=layers, vocab_size=vocab))
    assert read.shape.taps == (2, layers // 2, layers - 3)
    assert read.shape.layer.rope_parameters["rope_theta"] == 500000.0


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (LlamaConfig(hidden_size=WIDTH * 2, num_hidden_layers=N_LAYERS, vocab_size=VOCAB), "is for another model"),
        (LlamaConfig(hidden_size=WIDTH, num_hidden_layers=N_LAYERS, vocab_size=100), "tokens that the target does not"),
    ],
)
def test_a_head_for_another_target_is_refused(target: LlamaConfig, why: str, tmp_path: Path) -> None:
    published(a_head(), tmp_path, EAGLE)
    with pytest.raises(ModelError, match=why):
        eagle3_files.read(tmp_path, target)


@pytest.mark.parametrize("ids", [[2, 6, 12], [-1, 6, 9]])
def test_a_head_that_reads_layers_which_the_target_lacks_is_refused(ids: list[Any], tmp_path: Path) -> None:
    published(a_head(), tmp_path, {**EAGLE, IDS: ids})
    with pytest.raises(ModelError, match="and the target has 12"):
        eagle3_files.read(tmp_path, TARGET)


@pytest.mark.parametrize("before", [False, True])
def test_a_step_computes_what_the_published_code_does(before: bool) -> None:
    """One token attends to itself alone, so that the whole layer can be written down."""
    head = a_head(norm_before_residual=before)
    embedded, taps = torch.randn(1, WIDTH), torch.randn(1, 3 * WIDTH)

    def norm(x: torch.Tensor, module: Any) -> torch.Tensor:
        return module.weight * x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()

    layer = head.midlayer
    feature = taps @ head.fc.weight.T
    normed = norm(feature, layer.hidden_norm)
    value = torch.cat([norm(embedded, layer.input_layernorm), normed], -1) @ layer.self_attn.v_proj.weight.T
    x = (normed if before else feature) + value.view(2, 16).repeat_interleave(
        2, 0
    ).flatten() @ layer.self_attn.o_proj.weight.T
    y = norm(x, layer.post_attention_layernorm)
    x = x + (F.silu(y @ layer.mlp.gate_proj.weight.T) * (y @ layer.mlp.up_proj.weight.T)) @ layer.mlp.down_proj.weight.T
    expected = norm(x, head.norm) @ head.lm_head.weight.T

    residual, heads = head.heads(embedded, head.features(taps), *head.rotary(torch.tensor([5])))
    attended = heads.values.repeat_interleave(2, dim=1).flatten(1)
    torch.testing.assert_close(head.logits(head.finish(residual, attended)), expected, atol=1e-5, rtol=1e-4)
