"""An imported head reads the layers with which it is right most often, whichever way its file counts them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from decoding.models import eagle3_files, heads
from decoding.models.eagle3 import Eagle3, Eagle3Shape
from decoding.training import importing

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
    assert eagle3_files.read(heads.folder_of("qwen2.5-coder-0.5b"), CONFIG).shape.taps == best
