"""Texts and log-probabilities are the same bits whatever the size of the cache's pages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from transformers import PreTrainedModel

from decoding.attention.backends import NAMES
from decoding.attention.choice import find_obstacle
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead
from decoding.request import Completion, Request, SamplingParams
from tests.decoding.conftest import DRAFT, drafters, tiny_qwen2
from tests.thorough import quick_first, thorough

LONG = "def add(a, b):\n    return a + b\n\n\n" * 5
REQUESTS = [
    Request(LONG, n=3, seed=1, max_new_tokens=40, sampling=SamplingParams(0.8, 0.95)),
    Request("x", n=2, seed=2, max_new_tokens=70, sampling=SamplingParams(0.4, 0.9)),
    Request(LONG[:129], n=1, max_new_tokens=20, sampling=SamplingParams(0.0)),
]


@pytest.mark.parametrize("attention", [thorough("sdpa"), "native"])
@pytest.mark.parametrize("drafter", quick_first(drafters(), ["sibling+./draft", "trained"]))
def test_texts_do_not_depend_on_the_size_of_a_page(
    attention: str,
    drafter: str,
    loaded: Callable[[PreTrainedModel], LoadedModel],
    draft: LoadedModel,
    head: LoadedHead,
) -> None:
    target = loaded(tiny_qwen2())
    if why := find_obstacle(attention, target.device):
        pytest.skip(why)
    target.model.set_attn_implementation(NAMES[attention])
    config = EngineConfig("tiny", drafter, draft_length="fixed:4")  # whatever a round takes
    parts = draft if DRAFT in drafter else None, head if "trained" in drafter else None

    def decode(page_size: int) -> list[list[tuple[list[int], list[float]]]]:
        texts = []
        for _, outcome in sorted(Engine(config, target, *parts, page_size=page_size).generate_many(REQUESTS)):
            assert isinstance(outcome, Completion)
            texts.append([(sample.token_ids, sample.logprobs) for sample in outcome.samples])
        return texts

    expected = decode(64)
    assert [size for size in (16, 32, 128) if decode(size) != expected] == []
