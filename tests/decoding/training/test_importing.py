"""A published head is measured on its target before it replaces the old one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from decoding.models import dflash_files, trained_heads
from decoding.models.errors import ModelError
from decoding.models.loaded import ModelSpec
from decoding.prepare import load_unpacked
from decoding.training import importing
from decoding.training.collection import PromptBuilder, RenderedPrompt
from decoding.training.initial import build_head
from decoding.training.statements import Statement
from tests.decoding.conftest import tiny_qwen2


def test_prompts_that_the_target_cannot_read_are_not_measured_with(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    tiny_qwen2().save_pretrained(tmp_path / "model")  # a context of 512 tokens, a byte each
    tokenizer.save_pretrained(tmp_path / "model")
    target = load_unpacked(ModelSpec(str(tmp_path / "model")))
    published = build_head(target, (0, 1, 1), torch.arange(0, 200, 2), seed=0)
    dflash_files.write(published, tmp_path / "head", target.model.config)
    prompt_builder = PromptBuilder(lambda statement: RenderedPrompt(statement.text, ()))
    too_long = Statement("function", "x" * 600)

    def take(statements: list[Statement]) -> trained_heads.HeadRecord:
        return importing.import_or_measure_head(
            str(tmp_path / "model"), str(tmp_path / "head"), iter(statements), lambda _target: prompt_builder
        )

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
    published = build_head(target, (0, 1, 1), torch.arange(0, 200, 2), seed=0)
    prompt_builder = PromptBuilder(lambda statement: RenderedPrompt(statement.text, ()))

    def take(name: str) -> trained_heads.HeadRecord:
        dflash_files.write(published, tmp_path / name, target.model.config)
        statement = Statement("function", "def f(x):\n    return x\n")
        return importing.import_or_measure_head(
            str(tmp_path / "model"), str(tmp_path / name), iter([statement]), lambda _target: prompt_builder
        )

    first = take("good")
    published.requires_grad_(requires_grad=False).lm_head.weight.fill_(3e38)  # finite, and its products are not
    with pytest.raises(ModelError, match="logits that are not numbers"):
        take("bad")
    assert trained_heads.find(str(tmp_path / "model")) == first
