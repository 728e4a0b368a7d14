"""The log-probabilities of prompts and of top tokens equal the model's own forward."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from decoding.attention.runner import ModelRunner
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.request import Request, RequestError, SamplingParams
from tests.decoding.conftest import EOS, drafters, tiny_qwen2

PROMPT = "def add(a, b):\n    return a + b\n" * 5  # 155 tokens of one byte: three pieces of a prefill
GREEDY = SamplingParams(0.0, 1.0)


def own_logprobs(model, ids: list[int]) -> torch.Tensor:
    """Log-probabilities [T, V] of the known tokens by transformers' forward, with its own attention."""
    model.config._attn_implementation, before = "eager", model.config._attn_implementation
    with torch.inference_mode():
        logits = model(torch.tensor([ids], device=model.device)).logits[0, :, : EOS + 1].float().cpu()
    model.config._attn_implementation = before
    return logits.log_softmax(dim=1)


def ids_of(engine, text: str) -> list[int]:
    return engine.target.tokenizer(text)["input_ids"]


@pytest.mark.parametrize("drafter", drafters())
def test_a_prompt_scores_what_the_model_itself_computes(engine, drafter):
    made = engine(drafter=drafter)
    ids = ids_of(made, PROMPT)
    expected = own_logprobs(made.target.model, ids)
    for prompt in (PROMPT, tuple(ids)):
        scored = made.generate(Request(prompt, max_new_tokens=2, sampling=GREEDY, prompt_logprobs=2)).prompt_logprobs
        assert scored[0].logprob is None
        assert "".join(token.text for token in scored) == PROMPT
        for at, token in enumerate(scored[1:], 1):
            assert token.logprob == pytest.approx(float(expected[at - 1, ids[at]]), abs=1e-4)
            best = expected[at - 1].topk(2).values
            assert [logprob for _, logprob in token.top] == pytest.approx(best.tolist(), abs=1e-4)


def test_the_likeliest_token_of_a_prompt_is_found_by_comparing_for_equality(engine):
    made = engine()
    greedy = made.generate(Request(PROMPT, max_new_tokens=8, sampling=GREEDY)).samples[0].token_ids
    continued = (*ids_of(made, PROMPT), *greedy)
    scored = made.generate(Request(continued, max_new_tokens=1, prompt_logprobs=1)).prompt_logprobs
    assert [token.logprob == token.top[0][1] for token in scored[-len(greedy) :]] == [True] * len(greedy)


def test_scoring_a_prompt_changes_neither_its_samples_nor_those_of_its_neighbours(engine):
    made = engine()
    plain = Request(PROMPT, n=3, seed=4, max_new_tokens=12, sampling=SamplingParams(0.9, 1.0))
    scored = Request(PROMPT, n=3, seed=4, max_new_tokens=12, sampling=SamplingParams(0.9, 1.0), prompt_logprobs=0)
    expected = [sample.token_ids for sample in made.generate(plain).samples]
    together = dict(made.generate_many([scored, plain, scored]))
    assert [[s.token_ids for s in together[i].samples] for i in range(3)] == [expected] * 3
    assert together[1].prompt_logprobs is None
    assert together[0].prompt_logprobs == together[2].prompt_logprobs


def test_a_scored_prompt_is_not_taken_from_the_prefix_cache(engine):
    made = engine()
    request = Request(PROMPT, max_new_tokens=1, prefix_cache=True)
    made.generate(request)
    again = made.generate(Request(PROMPT, max_new_tokens=1, prefix_cache=True, prompt_logprobs=0))
    assert (again.cached_tokens, len(again.prompt_logprobs)) == (0, len(PROMPT))
    assert made.generate(request).cached_tokens > 0, "the cache still serves the others"


def test_a_prompt_of_one_token_has_nothing_to_score(engine):
    (only,) = engine().generate(Request((65,), max_new_tokens=1, prompt_logprobs=1)).prompt_logprobs
    assert (only.text, only.logprob, only.top) == ("b", None, ())


def test_a_deadline_within_the_prompt_leaves_no_scores(engine):
    cut = engine().generate(Request(PROMPT, max_new_tokens=1, prompt_logprobs=1, budget_s=1e-9))
    assert cut.prompt_logprobs is None
    assert cut.samples[0].finish_reason == "deadline"


@pytest.mark.parametrize("token", [-1, 257, 2**40])
def test_an_id_that_is_no_token_is_refused(engine, token):
    made = engine()
    with pytest.raises(RequestError, match=f"prompt holds the token id {token}, and .* has the ids 0 to 256"):
        made.generate(Request((65, token), max_new_tokens=1))
    with pytest.raises(RequestError, match="prompt holds the token id"):
        made.decode((65, token))


def test_the_likeliest_tokens_beside_each_sampled_one_are_the_models_own(engine):
    made = engine()
    request = Request(PROMPT, n=2, seed=3, max_new_tokens=10, sampling=SamplingParams(0.8, 1.0), top_logprobs=3)
    for sample in made.generate(request).samples:
        ids = [*ids_of(made, PROMPT), *sample.token_ids]
        expected = own_logprobs(made.target.model, ids)[len(PROMPT) - 1 : -1]
        assert len(sample.top_logprobs) == sample.n_tokens
        for top, own in zip(sample.top_logprobs, expected, strict=True):
            assert [logprob for _, logprob in top] == pytest.approx(own.topk(3).values.tolist(), abs=1e-4)


def test_a_request_that_wants_no_likeliest_tokens_gets_none_beside_one_that_does(engine):
    plain, asking = (Request(PROMPT, max_new_tokens=4, sampling=GREEDY, top_logprobs=n) for n in (0, 2))
    outcomes = dict(engine().generate_many([plain, asking]))
    assert outcomes[0].samples[0].top_logprobs == []
    assert [len(top) for top in outcomes[1].samples[0].top_logprobs] == [2] * 4


def test_the_end_of_sequence_token_has_its_log_probability(loaded):
    model = tiny_qwen2()
    engine = Engine(EngineConfig("tiny", drafter="none"), loaded(model), None)
    (sample,) = engine.generate(Request(PROMPT, max_new_tokens=1, sampling=GREEDY)).samples
    assert sample.eos_logprob is None
    with torch.no_grad():
        model.lm_head.weight[EOS] = 2 * model.lm_head.weight[sample.token_ids[0]]  # above the top token
    (sample,) = engine.generate(Request(PROMPT, max_new_tokens=1, sampling=GREEDY)).samples
    ids = ids_of(engine, PROMPT)
    assert (sample.finish_reason, sample.token_ids) == ("stop", [])
    assert sample.eos_logprob == pytest.approx(float(own_logprobs(model, ids)[-1, EOS]), abs=1e-4)


def test_names_of_tokens_differ_even_for_parts_of_a_character(engine):
    made = engine()
    scored = made.generate(Request("é", max_new_tokens=1, prompt_logprobs=5)).prompt_logprobs
    assert [token.text for token in scored] == ["", "é"]
    names = [text for text, _ in scored[1].top]
    assert len(set(names)) == 5
    assert all(not math.isnan(logprob) for _, logprob in scored[1].top)


def test_the_token_with_which_a_tokenizer_begins_a_sequence_adds_no_text(loaded, tokenizer):
    begins = copy.deepcopy(tokenizer)
    begins.add_special_tokens({"bos_token": "<eos>"})
    begins._tokenizer.post_processor = TemplateProcessing(single="<eos> $A", special_tokens=[("<eos>", EOS)])
    engine = Engine(EngineConfig("tiny", drafter="none"), replace(loaded(tiny_qwen2()), tokenizer=begins), None)
    scored = engine.generate(Request("ab", max_new_tokens=1, prompt_logprobs=0)).prompt_logprobs
    assert [token.text for token in scored] == ["", "a", "b"]
    given = tuple(begins("ab")["input_ids"])
    scored = engine.generate(Request(given, max_new_tokens=1, prompt_logprobs=0)).prompt_logprobs
    assert [token.text for token in scored] == ["<eos>", "a", "b"], "a client that sends the token gets its text"
    assert engine.decode(given) == "<eos>ab"


def test_messages_that_a_chat_template_refuses_are_the_callers_fault(loaded, tokenizer):
    strict = copy.deepcopy(tokenizer)
    strict.chat_template = "{{ raise_exception('roles must alternate') }}"
    engine = Engine(EngineConfig("tiny", drafter="none"), replace(loaded(tiny_qwen2()), tokenizer=strict), None)
    with pytest.raises(RequestError, match="messages do not fit the chat template of tiny: roles must alternate"):
        engine.render_chat([{"role": "user", "content": "x"}], "")


def test_the_cost_of_scoring_is_learnt_for_the_deadline_and_not_taken_for_that_of_other_prompts(target, monkeypatch):
    runner = ModelRunner(target.model, target.vocab_size, max_rows=1)
    now = iter(range(0, 10_000, 5))
    monkeypatch.setattr("decoding.attention.prefill.time.perf_counter", lambda: float(next(now)))
    prefill, ahead = runner.start(0, [65] * 150, 200, score=lambda logits: None), []
    while not prefill.is_done(0):
        ahead.append(prefill.estimate(0).next_s)
        prefill.step(0)
    assert ahead[0] == 0, "nothing is known before the first piece"
    assert ahead[1] >= 5, "a piece has taken five seconds"
    assert runner.cost.token.expected_s == 0
    again = runner.start(0, [65] * 150, 200, score=lambda logits: None)
    assert again.estimate(0).next_s > 0, "which the next prompt to be scored is expected to take"
