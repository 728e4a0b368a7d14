"""Heads in the files that others publish: they are read, and what we write is read again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F
from transformers import LlamaConfig

from decoding.models import dflash_files
from decoding.models.dflash import DFlash, DFlashShape
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
    "num_hidden_layers": 2,
}
IDS = "target_layer_ids"
PUBLISHED = {
    **LAYER,
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "block_size": 4,
    "dflash_config": {"mask_token_id": 7, IDS: [1, 5, 8]},
    "num_target_layers": N_LAYERS,
    "vocab_size": VOCAB,
}
ADDITIONS = {"reads_anchor": True, "markov_rank": 8, "has_confidence": True}
BARE = {"reads_anchor": False, "has_head_norms": True}


def a_head(**flags: Any) -> DFlash:
    torch.manual_seed(0)
    config = LlamaConfig(**LAYER, vocab_size=VOCAB)
    head = DFlash(DFlashShape(config, (2, 6, 9), 4, 7, DRAFTED, **flags))
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_((torch.randn_like(parameter) * 0.1).bfloat16())
    head.d2t.copy_(torch.arange(DRAFTED) * 8)
    return head.eval()


def published(head: DFlash, folder: Path, config: dict[str, Any]) -> None:
    """The head's files, with any configuration."""
    folder.mkdir(exist_ok=True)
    save_file(dict(head.state_dict()), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


def same(a: DFlash, b: DFlash) -> bool:
    theirs = b.state_dict()
    return all(torch.equal(tensor, theirs[name]) for name, tensor in a.state_dict().items())


def rows(ids: torch.Tensor) -> torch.Tensor:
    """Rows of the target's output layer."""
    return ids[:, None].float().expand(-1, WIDTH) / 100


def test_a_published_head_is_read_with_rows_of_the_targets_output_layer(tmp_path: Path) -> None:
    head = a_head(**BARE)
    weights = {
        name: tensor.bfloat16() for name, tensor in head.state_dict().items() if name not in ("lm_head.weight", "d2t")
    }
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED))
    read = dflash_files.read(tmp_path, TARGET, rows)
    assert (read.shape.taps, read.shape.block, read.shape.mask_token) == ((2, 6, 9), 4, 7)
    assert (read.shape.has_head_norms, read.shape.reads_anchor, read.shape.markov_rank) == (True, False, 0)
    assert read.token_ids.tolist() == list(range(VOCAB))
    assert torch.equal(read.lm_head.weight, rows(torch.arange(VOCAB)))
    assert all(torch.equal(tensor.float(), read.state_dict()[name]) for name, tensor in weights.items())
    with pytest.raises(ModelError, match=r"lm_head\.weight is missing"):
        dflash_files.read(tmp_path, TARGET)


@pytest.mark.parametrize("flags", [ADDITIONS, BARE, {}])
def test_what_is_written_is_read_again(flags: dict[str, Any], tmp_path: Path) -> None:
    head = a_head(**flags)
    dflash_files.write(head, tmp_path, TARGET)
    read = dflash_files.read(tmp_path, TARGET)
    assert same(read, head)
    assert replace(read.shape, layer=head.shape.layer) == head.shape
    assert read.token_ids.tolist() == [i + 8 * i for i in range(DRAFTED)]
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["architectures"], config["block_size"]) == (["DFlashDraftModel"], 4)
    assert config["dflash_config"] == {"mask_token_id": 7, IDS: [1, 5, 8]}


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (LlamaConfig(hidden_size=WIDTH * 2, num_hidden_layers=N_LAYERS, vocab_size=VOCAB), "is for another model"),
        (LlamaConfig(hidden_size=WIDTH, num_hidden_layers=N_LAYERS, vocab_size=100), "tokens that the target does not"),
        (LlamaConfig(hidden_size=WIDTH, num_hidden_layers=9, vocab_size=VOCAB), "and the target has 9"),
    ],
)
def test_a_head_for_another_target_is_refused(target: LlamaConfig, why: str, tmp_path: Path) -> None:
    published(a_head(), tmp_path, PUBLISHED)
    with pytest.raises(ModelError, match=why):
        dflash_files.read(tmp_path, target)


def norm(x: torch.Tensor, module: Any) -> torch.Tensor:
    normed: torch.Tensor = module.weight * x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()
    return normed


def test_a_block_reads_the_last_token_and_masks_as_the_published_code_does() -> None:
    embedded, features, mask = torch.randn(2, WIDTH), torch.randn(2, WIDTH), torch.randn(WIDTH)
    bare = a_head(**BARE).inputs(embedded, features, mask).view(2, 4, WIDTH)
    assert torch.equal(bare[:, 0], embedded)
    assert all(torch.equal(bare[r, i], mask) for r in range(2) for i in range(1, 4))
    head = a_head()
    ours = head.inputs(embedded, features, mask).view(2, 4, WIDTH)
    read = features + norm(embedded, head.anchor.norm) @ head.anchor.proj.weight.T
    torch.testing.assert_close(ours[:, 2], mask + head.anchor.masks[1] + read)


def test_a_layer_computes_what_the_published_code_does() -> None:
    """One position attends to itself alone, so that the whole layer can be written down."""
    head = a_head(**BARE)
    x, features = torch.randn(1, WIDTH), torch.randn(1, WIDTH)
    layer: Any = head.layers[0]
    cos, sin = head.rotary(torch.tensor([5]))
    heads = head.compute_qkv(0, x, cos, sin)
    value = norm(x, layer.input_layernorm) @ layer.self_attn.v_proj.weight.T
    torch.testing.assert_close(heads.values.flatten(1), value)
    context = head.context(features, cos, sin)[0]
    key = norm(
        (norm(features, head.hidden_norm) @ layer.self_attn.k_proj.weight.T).view(1, 2, 16), layer.self_attn.k_norm
    )
    rotated = key * cos + torch.cat([-key[..., 8:], key[..., :8]], -1) * sin
    torch.testing.assert_close(context.keys, rotated, atol=1e-5, rtol=1e-4)
    attended = heads.values.repeat_interleave(2, dim=1).flatten(1)
    y = x + attended @ layer.self_attn.o_proj.weight.T
    z = norm(y, layer.post_attention_layernorm)
    y = y + (F.silu(z @ layer.mlp.gate_proj.weight.T) * (z @ layer.mlp.up_proj.weight.T)) @ layer.mlp.down_proj.weight.T
    torch.testing.assert_close(head.finish(0, x, attended), y, atol=1e-5, rtol=1e-4)


def test_the_token_before_changes_a_position_only_with_a_markov_head() -> None:
    logits, states = torch.randn(3, DRAFTED), torch.randn(3, WIDTH)
    one, other = torch.randn(3, WIDTH), torch.randn(3, WIDTH)
    assert torch.equal(a_head().add_markov_logits(logits, states, one), logits)
    head = a_head(**ADDITIONS)
    assert not torch.equal(head.add_markov_logits(logits, states, one), head.add_markov_logits(logits, states, other))
