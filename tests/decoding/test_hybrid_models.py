"""Hybrid models: recurrent layers beside attention decode the same texts whatever is drafted, rejected and shared."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, Qwen3_5Config, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration

import kernels.recurrence
from decoding.attention import recurrence
from decoding.attention.row_by_row import make_runner, measure_cache
from decoding.attention.runner import ModelRunner
from decoding.checks import compatibility, self_check
from decoding.checks.invariance import MIN_ROWS, is_batch_invariant
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.limits import MAX_SERVED
from decoding.loop import decoding_loop, turns
from decoding.memory import store
from decoding.memory.pages import PagePool
from decoding.memory.states import count_slots
from decoding.models import loading
from decoding.models.errors import ModelError
from decoding.models.fusion import fuse
from decoding.models.loaded import LoadedModel
from decoding.models.packing import prepack
from decoding.models.trained_heads import HeadRecord
from decoding.models.trained_heads import prepare_head as ready_head
from decoding.prepare import refuse_recurrent_draft
from decoding.request import Completion, Request, RequestError, SamplingParams
from decoding.training.initial import build_head
from decoding.training.text_recorder import MAX_ROWS, TextRecorder
from kernels import triton_recurrence
from tests.decoding.conftest import disturbed, tiny_qwen2
from tests.decoding.hybrids import DENSE, HYBRIDS, KINDS, N_TOKENS, OTHERS, HalfWrong
from tests.decoding.test_architectures import PROMPTS, REFUSED, alone, fitted, random_model
from tests.thorough import quick_first, thorough

pytestmark = pytest.mark.slow
Load = Callable[[PreTrainedModel], LoadedModel]
Texts = list[list[int]]
DOCS = Path(__file__).parents[2] / "docs" / "models.md"
PROMPT = PROMPTS[0] * 2  # a chunk of a prefill, and the start of another one


def asked(**changes: object) -> Request:
    settings = {"prompt": PROMPT, "n": 6, "seed": 3, "max_new_tokens": 20, **changes}
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


def half_wrong(monkeypatch: pytest.MonkeyPatch, texts: Sequence[Sequence[int]]) -> HalfWrong:
    """Let the next batch draft tokens of which some are wrong."""
    made = HalfWrong(texts)
    monkeypatch.setattr(decoding_loop, "make_drafter", lambda *_: made)
    return made


def with_few_slots(monkeypatch: pytest.MonkeyPatch, target: LoadedModel, n: int, **settings: object) -> Engine:
    """An engine whose memory has room for `n` slots."""
    kv_bytes = 2**26
    state_bytes = measure_cache(make_runner(target.model, target.vocab_size, 1))[1]
    monkeypatch.setattr(store, "_FOR_STATES", (n + 0.5) * state_bytes / kv_bytes)
    config = EngineConfig(**{"target": "tiny", "drafter": "sibling", "draft_length": "fixed:3", **settings})  # type: ignore[arg-type]
    return Engine(config, target, None, kv_bytes=kv_bytes)


@pytest.fixture(scope="module")
def draft(loaded: Load) -> LoadedModel:
    """A draft model of attention alone, which is nearly always wrong."""
    return replace(loaded(tiny_qwen2()), vocab_size=N_TOKENS)


@pytest.mark.parametrize("name", quick_first(HYBRIDS, KINDS))
def test_greedy_output_is_what_transformers_generates(name: str, loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(HYBRIDS[name])
    tokenizer = loaded(tiny_qwen2()).tokenizer
    ids = [torch.tensor([tokenizer(prompt)["input_ids"]]) for prompt in PROMPTS]
    want = [alone(model, prompt, 12, use_cache=True) for prompt in ids]
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


@pytest.mark.parametrize("name", quick_first(HYBRIDS, KINDS))
def test_no_drafter_and_no_batch_changes_a_text(name: str, loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    target = ready(loaded, name)
    plain = engine_of(target).generate(asked())
    want = [sample.token_ids for sample in plain.samples]
    assert len({tuple(tokens) for tokens in want}) > 1, "rows have forked"
    found = {"sibling": texts_of(engine_of(target, "sibling", max_batch=3), asked())}
    found["n = 1"] = texts_of(engine_of(target), asked(n=1))
    drafts = half_wrong(monkeypatch, want)
    wrong = engine_of(target, "ngram").generate(asked())
    found["half wrong"] = [sample.token_ids for sample in wrong.samples]
    assert drafts.outcomes == {"none", "some", "all"}
    if name in DENSE:
        assert [s.logprobs for s in wrong.samples] == [s.logprobs for s in plain.samples], "to the bit"
    assert found == {how: want[: len(texts)] for how, texts in found.items()}


@pytest.mark.parametrize("name", quick_first(HYBRIDS, ["qwen3_5"]))
@pytest.mark.parametrize("drafter", ["ngram", "./draft"])
def test_what_looks_up_or_runs_a_model_changes_no_text(
    name: str, drafter: str, loaded: Load, draft: LoadedModel
) -> None:
    target = ready(loaded, name)
    want = texts_of(engine_of(target), asked())
    engine = engine_of(target, drafter, draft if drafter == "./draft" else None, max_batch=4)
    drafted = engine.generate(asked()).samples
    assert sum(sample.n_drafted for sample in drafted) > 0
    assert [sample.token_ids for sample in drafted] == want


@pytest.mark.parametrize("name", quick_first(HYBRIDS, ["qwen3_5"]))
def test_a_prompt_from_the_prefix_cache_is_continued_in_the_same_way(
    name: str, loaded: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = fitted(loaded, random_model(HYBRIDS[name]))
    engine = engine_of(target)
    first = PROMPTS[0] * 3  # 138 tokens
    for prompt, cached in ((first, 0), (first + PROMPTS[1], 128), (first[:100], 64), (first[:60], 0)):
        request = asked(prompt=prompt, n=2, max_new_tokens=6)
        plain, found = engine.generate(request), engine.generate(replace(request, prefix_cache=True))
        assert [s.token_ids for s in found.samples] == [s.token_ids for s in plain.samples]
        assert [s.logprobs for s in found.samples] == [s.logprobs for s in plain.samples]
        assert found.cached_tokens == cached
    request = asked(prompt=first + PROMPTS[1])
    want = texts_of(engine, request)
    drafts = half_wrong(monkeypatch, want)
    found = engine.generate(replace(request, prefix_cache=True))
    assert found.cached_tokens == 128
    assert drafts.outcomes == {"none", "some", "all"}
    assert [s.token_ids for s in found.samples] == want


@pytest.mark.parametrize("name", quick_first(HYBRIDS, ["qwen3_5"]))
def test_a_prompt_scores_what_transformers_computes(name: str, loaded: Load) -> None:
    model = random_model(HYBRIDS[name])
    target = fitted(loaded, copy.deepcopy(model))
    ids = target.tokenizer(PROMPTS[0] * 3)["input_ids"][:120]
    with torch.inference_mode():
        want = model(torch.tensor([ids])).logits[0, :-1].log_softmax(dim=1).gather(1, torch.tensor(ids[1:])[:, None])
    scored = engine_of(target).generate(Request(tuple(ids), max_new_tokens=1, prompt_logprobs=1)).prompt_logprobs
    assert scored is not None
    assert torch.allclose(torch.tensor([token.logprob for token in scored[1:]]), want[:, 0], atol=1e-4)


@pytest.mark.parametrize("name", quick_first(KINDS, ["qwen3_5"]))
def test_a_long_prompt_read_between_the_rounds_of_others_changes_no_text(
    name: str, loaded: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_CHUNKS_AT_ONCE", 4)
    target = fitted(loaded, random_model(HYBRIDS[name]))
    engine = engine_of(target, "sibling")
    wanted = [asked(), asked(prompt=PROMPTS[0] * 9, n=2, max_new_tokens=6), asked(seed=3)]  # seven chunks
    outcomes = dict(engine.serve(iter(wanted)))
    for position, request in enumerate(wanted):
        outcome = outcomes[position]
        assert isinstance(outcome, Completion)
        assert [sample.token_ids for sample in outcome.samples] == texts_of(engine_of(target), request)
    states = engine._pool._pools[0].states
    assert states is not None
    assert states.n_used == 0


@pytest.mark.parametrize("name", quick_first(KINDS, ["qwen3_5", "lfm2"]))
def test_a_request_that_is_cancelled_or_late_leaves_the_others_as_they_are(
    name: str, loaded: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = fitted(loaded, random_model(HYBRIDS[name]))
    engine = engine_of(target, "sibling")
    want = texts_of(engine, asked(n=3))
    requests = [asked(seed=5, n=3), asked(n=3), asked(seed=7, n=2, budget_s=12.0)]
    n_updates, now, forward = 0, 0.0, ModelRunner.forward

    def count(position: int, updates: object) -> None:
        nonlocal n_updates
        n_updates += position == 0 and bool(updates)

    def forward_in_a_second(*args: Any, **options: Any) -> torch.Tensor:
        nonlocal now
        now += 1
        return forward(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: now)
        patch.setattr(ModelRunner, "forward", forward_in_a_second)
        decoded = engine.generate_many(requests, count, lambda position: position == 0 and n_updates > 3)
        outcomes = {position: outcome for position, outcome in decoded if isinstance(outcome, Completion)}
    assert [s.token_ids for s in outcomes[1].samples] == want
    for position, reason in ((0, "cancelled"), (2, "deadline")):
        assert {s.finish_reason for s in outcomes[position].samples} == {reason}
        assert all(0 < s.n_tokens < 20 for s in outcomes[position].samples), "between two rounds"
    assert texts_of(engine, asked(n=3)) == want
    states = engine._pool._pools[0].states
    assert states is not None
    assert states.n_used == 0, "no slot is lost"


@pytest.mark.parametrize("n_slots", [2, thorough(3), thorough(5)])
def test_requests_wait_for_slots(n_slots: int, loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    target = fitted(loaded, random_model(HYBRIDS["qwen3_5"]))
    requests = [asked(seed=seed, n=4, max_new_tokens=9) for seed in range(3)]
    want = [texts_of(engine_of(target), request) for request in requests]
    engine = with_few_slots(monkeypatch, target, n_slots, max_batch=2)
    states = engine._pool._pools[0].states
    assert states is not None
    assert states.n_slots == min(n_slots, count_slots(MAX_SERVED))
    engine.warm_up()
    for decoded in (engine.generate_many(requests), engine.serve(iter(requests))):
        outcomes = dict(decoded)
        assert [[s.token_ids for s in outcomes[i].samples] for i in range(3)] == want  # type: ignore[union-attr]
    assert states.n_used == 0


def test_a_kernel_that_is_wrong_is_not_used(loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(compatibility, "has_kernel", lambda _: True)
    settings = HYBRIDS["qwen3_5"] | {"linear_num_value_heads": 4}
    right = triton_recurrence.run_tokens
    target = fitted(loaded, random_model(settings), attention="sdpa")
    assert recurrence.get_recurrence(target.model) is triton_recurrence
    assert self_check.check_kernels(target) == {}

    def fail(*_: object) -> None:
        raise RuntimeError("no such instruction")

    for wrong, why in (
        (lambda *args: (right(*args)[0] * 1.01, right(*args)[1]), "differs from its reference"),
        (fail, "no such instruction"),
    ):
        monkeypatch.setattr(triton_recurrence, "run_tokens", wrong)
        target = fitted(loaded, random_model(settings), attention="sdpa")
        assert recurrence.get_recurrence(target.model) is kernels.recurrence
        assert why in self_check.check_kernels(target)["recurrence"]


def test_a_round_whose_tokens_depend_on_the_draft_is_told(loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    target = ready(loaded, "qwen3_5")
    assert is_batch_invariant(ModelRunner(target.model, N_TOKENS, MIN_ROWS))
    advance = kernels.recurrence.advance_states

    def advance_otherwise(states: torch.Tensor, rows: Any, writes: Any) -> None:
        advance(states, rows, writes._replace(w=writes.w * (1 + 2**-20)))

    monkeypatch.setattr(kernels.recurrence, "advance_states", advance_otherwise)
    assert not is_batch_invariant(ModelRunner(target.model, N_TOKENS, MIN_ROWS))


def test_recordings_of_a_hybrid_take_their_slots_from_the_budget(loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    target = fitted(loaded, random_model(HYBRIDS["qwen3_5"]))
    slots: list[int] = []
    divide = store.KVStore.divide

    def noting(*args: Any, **options: Any) -> list[PagePool]:
        pools = divide(*args, **options)
        slots.extend(pool.states.n_slots for pool in pools if pool.states is not None)
        return pools

    monkeypatch.setattr(store.KVStore, "divide", noting)
    request = asked(n=1, max_new_tokens=6)
    ((_, recorded),) = TextRecorder(target, (0, 1, 1)).record([request])
    assert recorded is not None
    assert slots == [count_slots(MAX_ROWS)], "before a cache makes its own"


def test_the_documented_families_are_the_tested_ones() -> None:
    rows = dict(re.findall(r"^\| (packed, hybrid|refused: another state)[^|]*\| ([^|]*) \|$", DOCS.read_text(), re.M))
    documented = rows["packed, hybrid"].split(", ")
    assert documented == sorted(each["model_type"].removesuffix("_text") for each in (DENSE | OTHERS).values())
    assert set(DENSE | OTHERS) - set(HYBRIDS) <= {"lfm3", "bailing_hybrid"}, "the oldest transformers lacks these"
    refused = {name for name, (_, why) in REFUSED.items() if "keeps a state" in why or "layers of type" in why}
    assert refused <= set(rows["refused: another state"].split(", "))


def test_a_layer_of_an_unknown_kind_beside_known_ones_is_refused(loaded: Load) -> None:
    model = random_model(HYBRIDS["qwen3_5"])
    model.config.layer_types = ["linear_attention", "full_attention", "sliding_memory"]
    with pytest.raises(ModelError, match="in layers of type sliding_memory, of a kind"):
        fitted(loaded, model)


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
    with pytest.raises(ModelError, match="of a kind that cannot be rolled back here"):
        fitted(loaded, random_model(HYBRIDS["qwen3_5"]))


def test_a_layer_of_which_a_part_is_not_known_is_found(loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a convolution over the pack, which puts another row's token before a row's first."""
    monkeypatch.delitem(recurrence._FUNCTIONS, "causal_conv1d_fn")
    with pytest.raises(ModelError, match="its logits are off by"):
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


def test_the_language_model_of_one_with_images_is_loaded_alone(
    tmp_path: Path, loaded: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    text = {name: value for name, value in HYBRIDS["qwen3_5"].items() if name != "model_type"}
    vision = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 64}
    whole = Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=text, vision_config=vision)).eval()
    whole.save_pretrained(folder)
    loaded(tiny_qwen2()).tokenizer.save_pretrained(folder)
    target = loading.load(str(folder), "float32", "cpu", None)
    assert type(target.model) is Qwen3_5ForCausalLM
    assert target.context_length == 512
    ids = torch.arange(9)[None]
    with torch.inference_mode():
        assert torch.equal(target.model(ids).logits, whole(input_ids=ids).logits)


def test_a_hybrid_draft_model_is_refused(loaded: Load) -> None:
    target = fitted(loaded, disturbed(random_model(HYBRIDS["lfm2"]), 0.05))
    with pytest.raises(ModelError, match=r"cannot be a draft model.*choose a model of attention alone"):
        refuse_recurrent_draft(target)
