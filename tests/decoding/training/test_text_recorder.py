"""What is recorded of a text is what the target computes for it, with dense and with 8-bit weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from decoding.models.loaded import LoadedModel, ModelSpec
from decoding.prepare import load_model
from decoding.request import Request, SamplingParams
from decoding.training.collection import LONGEST_PROMPT, Collection
from decoding.training.text_recorder import TextRecorder
from tests.decoding.conftest import tiny_qwen2
from tests.thorough import thorough

TAPPED = (0, 1, 1)


@pytest.fixture(scope="module")
def folder(tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("target")
    tiny_qwen2().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with pytest.MonkeyPatch.context() as patch:
        # Loading a folder leaves a record of its files in the cache, here the user's.
        patch.setenv("BASSLINE_CACHE_DIR", str(folder / "cache"))
        yield folder


def off(recorded: torch.Tensor, computed: torch.Tensor) -> float:
    """The relative difference of two tensors of states."""
    assert recorded.shape == computed.shape
    return float((recorded.float() - computed).norm() / computed.norm())


@pytest.mark.parametrize(
    ("weights", "tolerance", "graphs"), [thorough("dense", 0.005, False), ("dense", 0.005, True), ("int8", 0.05, False)]
)
@torch.inference_mode()
def test_the_states_are_those_of_the_text(folder: Path, weights: str, tolerance: float, graphs: bool) -> None:
    target: LoadedModel = load_model(ModelSpec(str(folder), "float32", weights=weights))
    sampling = SamplingParams(0.8)
    requests = [Request(text, sampling=sampling, seed=i, max_new_tokens=20) for i, text in enumerate(("def", "x = [1"))]
    recorder = TextRecorder(target, TAPPED, graphs=graphs)
    recordings = [recording for one in requests for _, recording in recorder.record([one, *requests])]
    model = tiny_qwen2()
    for recording in recordings:
        assert recording is not None
        states = model(recording.tokens[None].long(), output_hidden_states=True).hidden_states
        n = len(recording.tokens) - 1
        assert off(recording.taps, torch.cat([states[tap][0, :n] for tap in TAPPED], dim=1)) < tolerance
        assert off(recording.outputs, states[-1][0, n - len(recording.outputs) : n]) < tolerance


class ChatTokenizer:
    """Begins a text with a token unless that is asked not to be."""

    bos_token = "<s>"

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [0] * (add_special_tokens + len(text.split()))}


def test_a_prompt_is_measured_as_the_engine_reads_it() -> None:
    """A rendered chat already begins with the first token, and the engine adds no second one."""
    target: Any = SimpleNamespace(tokenizer=ChatTokenizer(), context_length=2 * LONGEST_PROMPT)
    nothing: Any = None
    collection = Collection(target, (), nothing, nothing, nothing, nothing)
    assert collection._is_short_enough(Request("<s> " + "x " * (LONGEST_PROMPT - 1)))
    assert not collection._is_short_enough(Request("<s> " + "x " * LONGEST_PROMPT))
