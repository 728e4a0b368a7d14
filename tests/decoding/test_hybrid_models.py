"""Hybrid models: recurrent layers beside attention decode the same texts whatever is drafted, rejected and shared."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, Qwen3_5Config, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration

from decoding import engine as engine_module
from decoding.attention import recurrence
from decoding.config import EngineConfig
from decoding.drafters.base import Drafter
from decoding.engine import Engine
from decoding.models import loading
from decoding.models.errors import IncompatibleModelError, ModelError
from decoding.models.fusion import fuse
from decoding.models.loaded import LoadedModel
from decoding.models.packing import prepack
from decoding.models.trained_heads import HeadRecord
from decoding.models.trained_heads import prepare_head as ready_head
from decoding.prepare import refuse_recurrent_draft
from decoding.request import Completion, Request, RequestError, SamplingParams
from decoding.training.initial import build_head
from tests.decoding.conftest import disturbed, tiny_qwen2
from tests.decoding.hybrids import DENSE, HYBRIDS, KINDS, N_TOKENS, QUICK, HalfWrong
from tests.decoding.test_architectures import PROMPTS, alone, fitted, random_model
from tests.thorough import quick_first

pytestmark = pytest.mark.slow
Load = Callable[[PreTrainedModel], LoadedModel]
Texts = list[list[int]]
PROMPT = PROMPTS[0] * 2  # a chunk of a prefill, and the start of another one


def asked(**changes: object) -> Request:
    settings = {"prompt": PROMPT, "n": 8, "seed": 3, "max_new_tokens": 24, **changes}
    return Request(**{"sampling": SamplingParams(temperature=0.8), **settings})  # type: ignore[arg-type]


def ready(load: Load, name: str) -> LoadedModel:
    """A model as an engine loads it: checked, and with packed weights."""
    target = fitted(load, random_model(HYBRIDS[name]))
    fuse(target.model)
    prepack(target.model)
    return target


def engine_of(
    target: LoadedModel, drafter: str = "none", draft: LoadedModel | None = None, **settings: object
) -> Engine:
    config = EngineConfig(**{"target": "tiny", "drafter": drafter, "draft_length": "fixed:5", **settings})  # type: ignore[arg-type]
    return Engine(config, target, draft)


def texts_of(engine: Engine, request: Request) -> Texts:
    return [sample.token_ids for sample in engine.generate(request).samples]


def half_wrong(monkeypatch: pytest.MonkeyPatch, texts: Sequence[Sequence[int]]) -> None:
    """Let each engine draft tokens of which every second one is wrong."""
    made: Callable[..., Drafter] = lambda *_: HalfWrong(texts)  # noqa: E731
    monkeypatch.setattr(engine_module, "make_drafter", made)


@pytest.fixture(scope="module")
def draft(loaded: Load) -> LoadedModel:
    """A draft model of attention alone, which is nearly always wrong."""
    return replace(loaded(tiny_qwen2()), vocab_size=N_TOKENS)


@pytest.mark.parametrize("name", quick_first(HYBRIDS, QUICK))
def test_greedy_output_is_what_transformers_generates(name: str, loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(HYBRIDS[name])
    tokenizer = loaded(tiny_qwen2()).tokenizer
    ids = [torch.tensor([tokenizer(prompt)["input_ids"]]) for prompt in PROMPTS]
    want = [alone(model, prompt, 12) for prompt in ids]
    target = fitted(loaded, model)
    assert recurrence.is_recurrent(model)
    requests = [asked(prompt=p, n=2, sampling=SamplingParams(temperature=0), max_new_tokens=12) for p in PROMPTS]
    # Three prompts of two samples in four places: rows end, and give their places to others.
    for position, outcome in engine_of(target, max_batch=4).generate_many(requests):
        assert isinstance(outcome, Completion)
        assert [sample.token_ids for sample in outcome.samples] == [want[position]] * 2
    for acceptance in ("coupled", "maximal"):
        for prompt, wanted in zip(requests, want, strict=True):
            half_wrong(monkeypatch, [wanted] * 2)
            completion = engine_of(target, acceptance=acceptance).generate(prompt)
            assert [sample.token_ids for sample in completion.samples] == [wanted] * 2
            assert 0 < completion.samples[0].n_accepted < completion.samples[0].n_drafted


@pytest.mark.parametrize("name", quick_first(HYBRIDS, QUICK))
def test_no_drafter_and_no_batch_changes_a_text(
    name: str, loaded: Load, draft: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = ready(loaded, name)
    plain = engine_of(target).generate(asked())
    want = [sample.token_ids for sample in plain.samples]
    assert len({tuple(tokens) for tokens in want}) > 1, "rows have forked"
    found = {"sibling": texts_of(engine_of(target, "sibling", max_batch=3), asked())}
    if name in KINDS:  # how tokens are proposed does not depend on the family
        found["n = 1"] = texts_of(engine_of(target), asked(n=1))
        found["ngram"] = texts_of(engine_of(target, "ngram"), asked(n=3))
        found["model"] = texts_of(engine_of(target, "./draft", draft, max_batch=2), asked(n=3))
    half_wrong(monkeypatch, want)
    wrong = engine_of(target, "ngram").generate(asked())
    found["half wrong"] = [sample.token_ids for sample in wrong.samples]
    assert 0 < sum(s.n_accepted for s in wrong.samples) < sum(s.n_drafted for s in wrong.samples)
    if name in DENSE:
        assert [s.logprobs for s in wrong.samples] == [s.logprobs for s in plain.samples], "to the bit"
    assert found == {how: want[: len(texts)] for how, texts in found.items()}


@pytest.mark.parametrize("name", quick_first(HYBRIDS, KINDS))
def test_a_prompt_from_the_prefix_cache_is_continued_in_the_same_way(name: str, loaded: Load) -> None:
    target = fitted(loaded, random_model(HYBRIDS[name]))
    engine = engine_of(target)
    first = PROMPTS[0] * 3  # 138 tokens
    for prompt, cached in ((first, 0), (first + PROMPTS[1], 128), (first[:100], 64), (first[:60], 0)):
        request = asked(prompt=prompt, n=2, max_new_tokens=6)
        plain, found = engine.generate(request), engine.generate(replace(request, prefix_cache=True))
        assert [s.token_ids for s in found.samples] == [s.token_ids for s in plain.samples]
        assert [s.logprobs for s in found.samples] == [s.logprobs for s in plain.samples]
        assert found.cached_tokens == cached


@pytest.mark.parametrize("name", quick_first(HYBRIDS, KINDS))
def test_a_prompt_scores_what_transformers_computes(name: str, loaded: Load) -> None:
    model = random_model(HYBRIDS[name])
    target = fitted(loaded, copy.deepcopy(model))
    ids = target.tokenizer(PROMPTS[0] * 3)["input_ids"][:120]
    with torch.inference_mode():
        want = model(torch.tensor([ids])).logits[0, :-1].log_softmax(dim=1).gather(1, torch.tensor(ids[1:])[:, None])
    scored = engine_of(target).generate(Request(tuple(ids), max_new_tokens=1, prompt_logprobs=1)).prompt_logprobs
    assert scored is not None
    assert torch.allclose(torch.tensor([token.logprob for token in scored[1:]]), want[:, 0], atol=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_a_request_that_is_cancelled_or_late_leaves_the_others_as_they_are(name: str, loaded: Load) -> None:
    target = fitted(loaded, random_model(HYBRIDS[name]))
    engine = engine_of(target, "sibling")
    want = texts_of(engine, asked(n=3))
    requests = [asked(seed=5, n=3), asked(n=3), asked(seed=7, n=2, budget_s=1e-3)]
    asks = iter(range(1000))

    def cancels(position: int) -> bool:
        return position == 0 and next(asks) > 3

    outcomes = dict(engine.generate_many(requests, should_cancel=cancels))
    assert [s.token_ids for s in outcomes[1].samples] == want  # type: ignore[union-attr]
    assert {s.finish_reason for s in outcomes[0].samples} == {"cancelled"}  # type: ignore[union-attr]
    assert {s.finish_reason for s in outcomes[2].samples} == {"deadline"}  # type: ignore[union-attr]
    assert texts_of(engine, asked(n=3)) == want
    states = engine._pool._pools[0].states
    assert states is not None
    assert states.n_used == 0, "no slot is lost"


def test_a_round_that_fails_changes_no_state(loaded: Load) -> None:
    target = fitted(loaded, random_model(HYBRIDS["qwen3_5"]))
    engine = engine_of(target, "ngram")
    want = texts_of(engine, asked(n=2))
    n_calls = 0

    def fail_once(*_: object) -> None:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 9:
            raise MemoryError

    handle = target.model.get_output_embeddings().register_forward_hook(fail_once)
    try:
        outcomes = dict(engine.generate_many([asked(n=3, seed=9), asked(n=2)]))
    finally:
        handle.remove()
    assert isinstance(outcomes[0], RequestError), "the larger one ends, and the round is tried again"
    assert [s.token_ids for s in outcomes[1].samples] == want  # type: ignore[union-attr]


def test_the_model_itself_computes_as_before(loaded: Load) -> None:
    model = random_model(HYBRIDS["qwen3_5"])
    prompt = torch.tensor([[1, 2, 3, 4, 5]])
    before = model.generate(prompt, max_new_tokens=8, do_sample=False)
    target = fitted(loaded, model)
    target.model.set_attn_implementation("eager")
    assert torch.equal(target.model.generate(prompt, max_new_tokens=8, do_sample=False), before)


def test_a_recurrent_layer_that_is_not_known_is_refused(loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(recurrence._FUNCTIONS, "torch_chunk_gated_delta_rule")
    monkeypatch.delitem(recurrence._FUNCTIONS, "causal_conv1d_fn")
    with pytest.raises(IncompatibleModelError, match="of a kind that cannot be rolled back here"):
        fitted(loaded, random_model(HYBRIDS["qwen3_5"]))


def test_a_layer_of_which_a_part_is_not_known_is_found(loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a convolution over the pack, which puts another row's token before a row's first."""
    monkeypatch.delitem(recurrence._FUNCTIONS, "causal_conv1d_fn")
    with pytest.raises(IncompatibleModelError, match="its logits are off by"):
        fitted(loaded, random_model(HYBRIDS["qwen3_5"]))


def test_a_trained_head_drafts_for_a_hybrid(loaded: Load) -> None:
    target = ready(loaded, "qwen3_5")
    like = replace(loaded(tiny_qwen2()), vocab_size=N_TOKENS)
    record = HeadRecord("tiny", target.sha256, "1" * 64, "trained", "2026-01-01", 1, 1, N_TOKENS // 2, [0, 1, 1])
    head = ready_head(build_head(like, (0, 1, 1), torch.arange(0, N_TOKENS, 2), seed=0).eval(), target, record)
    config = EngineConfig(target="tiny", drafter="trained", draft_length="fixed:4")
    completion = Engine(config, target, None, head).generate(asked(n=3))
    assert [sample.token_ids for sample in completion.samples] == texts_of(engine_of(target), asked(n=3))
    assert sum(sample.n_drafted for sample in completion.samples) > 0


@pytest.mark.parametrize("name", ["qwen3_5", "lfm2"])
def test_a_head_is_not_trained_for_a_last_layer_of_another_kind(name: str, loaded: Load) -> None:
    target = fitted(loaded, random_model(HYBRIDS[name]))
    with pytest.raises(ModelError, match="no drafter can be trained for it"):
        build_head(target, (0, 1, 1), torch.arange(0, N_TOKENS, 2), seed=0)


def test_a_copy_of_a_model_runs_its_own_layers(loaded: Load) -> None:
    target = fitted(loaded, random_model(HYBRIDS["lfm2"]))
    target.model.set_attn_implementation("eager")
    other = copy.deepcopy(target.model)
    ids = torch.arange(6)[None]
    before = target.model(ids).logits
    with torch.no_grad():
        other.model.layers[0].conv.out_proj.weight.zero_()
    assert torch.equal(target.model(ids).logits, before)
    assert not torch.allclose(other(ids).logits, before)


def test_the_language_model_of_one_with_images_is_loaded_alone(tmp_path: Path, loaded: Load) -> None:
    text = {name: value for name, value in HYBRIDS["qwen3_5"].items() if name != "model_type"}
    vision = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 64}
    whole = Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=text, vision_config=vision)).eval()
    whole.save_pretrained(tmp_path)
    loaded(tiny_qwen2()).tokenizer.save_pretrained(tmp_path)
    target = loading.load(str(tmp_path), "float32", "cpu", None)
    assert type(target.model) is Qwen3_5ForCausalLM
    assert target.context_length == 512
    ids = torch.arange(9)[None]
    with torch.inference_mode():
        assert torch.equal(target.model(ids).logits, whole(input_ids=ids).logits)


def test_a_hybrid_draft_model_is_refused(loaded: Load) -> None:
    target = fitted(loaded, disturbed(random_model(HYBRIDS["lfm2"]), 0.05))
    with pytest.raises(ModelError, match=r"cannot be a draft model.*choose a model of attention alone"):
        refuse_recurrent_draft(target)
