"""On real weights in float32 a sample is the same text with every drafter, however long the drafts, and in whatever
batch."""

from __future__ import annotations

import pytest
import torch

from decoding.attention.backends import NAMES
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models import loading
from decoding.models.loaded import LoadedModel
from decoding.request import Request, SamplingParams
from tests.decoding.conftest import with_own_attention
from tests.thorough import thorough

pytestmark = [pytest.mark.slow, pytest.mark.model]

MODEL = "smollm2-135m"
PROMPT = 'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n    a, b = 0, 1\n'


@pytest.fixture(scope="module")
def target() -> LoadedModel:
    return loading.load(MODEL, "float32", "cpu", attention=NAMES["sdpa"])


@pytest.fixture(scope="module")
def draft() -> LoadedModel:
    """The same model rounded to bfloat16: a draft model that is nearly always right."""
    return loading.load(MODEL, "bfloat16", "cpu", attention=NAMES["sdpa"])


def texts(target: LoadedModel, draft: LoadedModel, drafter: str, length: str, n: int, temperature: float) -> list[str]:
    config = EngineConfig(target=MODEL, drafter=drafter, draft_length=length, max_batch=5)
    engine = Engine(config, target, draft if "model" in drafter else None)
    sampling = SamplingParams(temperature=temperature, top_p=0.95)
    completion = engine.generate(Request(PROMPT, n=n, sampling=sampling, seed=7, max_new_tokens=10))
    return [sample.text for sample in completion.samples]


MEETINGS = [("sibling", "goodput", 4), ("ngram", "bass", 2), ("./model", "fixed:3", 2), ("sibling+./model", "bass", 1)]


@pytest.mark.parametrize("meetings", [[("sibling+./model", "goodput", 2)], thorough(MEETINGS)], ids=["one", "all"])
def test_a_sample_is_the_same_text_for_every_drafter_length_and_batch(
    target: LoadedModel, draft: LoadedModel, meetings: list[tuple[str, str, int]]
) -> None:
    plain = texts(target, draft, "none", "fixed:0", max(n for *_, n in meetings), 1.0)
    for drafter, length, n in meetings:
        assert texts(target, draft, drafter, length, n, 1.0) == plain[:n], (drafter, length, n)


def test_greedy_is_what_transformers_generates(target: LoadedModel, draft: LoadedModel) -> None:
    ids = target.tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    with with_own_attention(target) as model:
        theirs = model.generate(ids, max_new_tokens=10, do_sample=False, attention_mask=torch.ones_like(ids))
    text = target.tokenizer.decode(theirs[0, ids.shape[1] :], skip_special_tokens=True)
    assert texts(target, draft, "sibling", "goodput", 1, 0.0) == [text]
