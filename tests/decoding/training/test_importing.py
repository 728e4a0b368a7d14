"""An imported head reads the layers with which it is right most often, whichever way its file counts them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, PreTrainedTokenizerFast

from decoding.models import eagle3_files, trained_heads
from decoding.models.eagle3 import Eagle3, Eagle3Shape
from decoding.models.errors import ModelError
from decoding.models.loaded import ModelSpec
from decoding.prepare import load_unpacked
from decoding.training import importing
from decoding.training.collection import Asking, Rendered
from decoding.training.initial import new_head
from decoding.training.statements import Statement
from tests.decoding.conftest import tiny_qwen2

N_LAYERS = 8
CONFIG = LlamaConfig(hidden_size=32, num_hidden_layers=N_LAYERS, vocab_size=100, num_attention_heads=2)


def head(taps: tuple[int, ...]) -> Eagle3:
    layer = LlamaConfig(hidden_size=32, intermediate_size=32, num_attention_heads=2, vocab_size=100)
    made = Eagle3(Eagle3Shape(layer, taps, 32, 10))
    made.d2t.copy_(torch.arange(10))
    return made


@pytest.mark.parametrize(
    ("given", "best", "tried"),
    [
        ((2, 4, 5), (2, 4, 5), {(2, 4, 5), (1, 3, 4), (3, 5, 6)}),
        ((2, 4, 5), (3, 5, 6), {(2, 4, 5), (1, 3, 4), (3, 5, 6)}),
        ((2, 4, 5), (1, 3, 4), {(2, 4, 5), (1, 3, 4), (3, 5, 6)}),
        ((0, 4, N_LAYERS - 1), (0, 4, N_LAYERS - 1), {(0, 4, N_LAYERS - 1)}),
    ],
)
def test_the_neighbours_are_tried_and_the_best_is_kept(
    given: tuple[int, ...],
    best: tuple[int, ...],
    tried: set[tuple[int, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path))
    seen = set()

    def match(_head: Eagle3, taps: tuple[int, ...], _target: Any, _prompts: list[str]) -> list[float]:
        seen.add(taps)
        return [0.6 if taps == best else 0.2]

    monkeypatch.setattr(importing, "_match", match)
    model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: CONFIG))
    target: Any = SimpleNamespace(ref="qwen2.5-coder-0.5b", sha256="0" * 64, model=model)
    record = importing._store(head(given), "hf:owner/head", target, [])
    assert seen == tried
    assert (record.taps, record.match, record.source) == (list(best), [0.6], "hf:owner/head")
    assert eagle3_files.read(trained_heads.folder_of("qwen2.5-coder-0.5b"), CONFIG).shape.taps == best


def test_prompts_that_the_target_cannot_read_are_not_measured_with(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    tiny_qwen2().save_pretrained(tmp_path / "model")  # a context of 512 tokens, a byte each
    tokenizer.save_pretrained(tmp_path / "model")
    target = load_unpacked(ModelSpec(str(tmp_path / "model")))
    published = new_head(target, (0, 1, 1), torch.arange(0, 200, 2), seed=0)
    eagle3_files.write(published, tmp_path / "head", target.model.config)
    asking = Asking(lambda statement: Rendered(statement.text, ()))
    too_long = Statement("function", "x" * 600)

    def take(statements: list[Statement]) -> trained_heads.HeadRecord:
        return importing.run(str(tmp_path / "model"), str(tmp_path / "head"), iter(statements), lambda _target: asking)

    record = take([too_long, Statement("function", "def f(x):\n    return x\n"), too_long])
    assert trained_heads.find(str(tmp_path / "model")) == record
    with pytest.raises(ModelError, match="reads 512 tokens at once, too few"):
        take([too_long])


def test_a_head_whose_logits_are_not_numbers_leaves_the_old_one(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    tiny_qwen2().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    target = load_unpacked(ModelSpec(str(tmp_path / "model")))
    published = new_head(target, (0, 1, 1), torch.arange(0, 200, 2), seed=0)
    asking = Asking(lambda statement: Rendered(statement.text, ()))

    def take(name: str) -> trained_heads.HeadRecord:
        eagle3_files.write(published, tmp_path / name, target.model.config)
        statement = Statement("function", "def f(x):\n    return x\n")
        return importing.run(str(tmp_path / "model"), str(tmp_path / name), iter([statement]), lambda _target: asking)

    first = take("good")
    published.requires_grad_(requires_grad=False).lm_head.weight.fill_(3e38)  # finite, and its products are not
    with pytest.raises(ModelError, match="logits that are not numbers"):
        take("bad")
    assert trained_heads.find(str(tmp_path / "model")) == first
