"""The promises of the engine: lossless, ragged, on time, reproducible, honest about why a sample ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product

import pytest
import torch

from decoding.attention.prefill import PREFILL_CHUNK
from decoding.drafters.lookup import LookupDrafter
from decoding.engine import Engine
from decoding.models.loaded import LoadedModel
from decoding.request import BrokenModelError, Request, RequestError, SamplingParams, Update
from decoding.state.proposal import Match, Proposal
from tests.decoding.conftest import drafters, with_own_attention
from tests.thorough import quick_first, thorough

PROMPT = "def add(a, b):\n    return a + b\n\ndef add(a, b):"
DRAFTERS = drafters()
EOS = 256
MakeEngine = Callable[..., Engine]
Plain = Callable[[Request], list[list[int]]]
EACH_KIND = quick_first(DRAFTERS, ("none", "sibling", "./draft", "sibling+./draft", "ngram+trained"))
"""Each kind of drafter, alone or combined; the other combinations in a thorough run."""


def request(**changes: object) -> Request:
    settings = {"prompt": PROMPT, "n": 5, "seed": 3, "max_new_tokens": 32, **changes}
    settings["sampling"] = SamplingParams(temperature=settings.pop("temperature", 0.8), top_p=0.95)  # type: ignore[arg-type]
    return Request(**settings)  # type: ignore[arg-type]


def without_eos(engine: Engine) -> Engine:
    """An engine whose samples never end by themselves: the end-of-sequence id is not in its vocabulary."""
    return Engine(engine.config, replace(engine.target, vocab_size=EOS), engine.draft, engine.head)


def tokens_of(engine: Engine, wanted: Request) -> list[list[int]]:
    return [sample.token_ids for sample in engine.generate(wanted).samples]


@pytest.fixture(scope="module")
def plain_tokens(engine: MakeEngine) -> Plain:
    """Decodes a request alone and without a drafter, once for all tests that compare with it."""
    return cache(partial(tokens_of, engine()))


MEETINGS = [(1, "goodput"), (3, "bass"), (8, "fixed:3")]
ALL_MEETINGS = list(product((1, 3, 8), ("goodput", "bass", "fixed:3")))


@pytest.mark.parametrize(
    ("temperature", "meetings"),
    [
        thorough(0.0, MEETINGS),
        (0.8, MEETINGS),
        *(thorough(t, ALL_MEETINGS) for t in (0.0, 0.2, 0.8, 1.0)),
    ],
)
@pytest.mark.parametrize("drafter", EACH_KIND)
def test_no_drafter_policy_or_batch_size_changes_a_sample(
    engine: MakeEngine, plain_tokens: Plain, drafter: str, temperature: float, meetings: list[tuple[int, str]]
) -> None:
    wanted = request(temperature=temperature)
    plain = plain_tokens(wanted)
    for max_batch, draft_length in meetings:
        made = engine(drafter=drafter, draft_length=draft_length, max_batch=max_batch)
        assert tokens_of(made, wanted) == plain, (drafter, draft_length, max_batch)


@pytest.mark.parametrize("drafter", EACH_KIND)
def test_greedy_is_the_same_under_the_maximal_rule(engine: MakeEngine, plain_tokens: Plain, drafter: str) -> None:
    wanted = request(temperature=0.0)
    assert tokens_of(engine(drafter=drafter, acceptance="maximal"), wanted) == plain_tokens(wanted)


def test_greedy_is_what_transformers_generates(engine: MakeEngine, target: LoadedModel) -> None:
    ours = tokens_of(engine(drafter="./draft"), request(temperature=0.0, n=1))[0]
    ids = torch.tensor([target.tokenizer(PROMPT)["input_ids"]], device=target.device)
    with with_own_attention(target) as model:
        theirs = model.generate(ids, max_new_tokens=32, do_sample=False, eos_token_id=256, pad_token_id=0)
    assert ours == [t for t in theirs[0, ids.shape[1] :].tolist() if t != 256]


def test_a_prompt_prefilled_in_chunks_is_what_transformers_reads(engine: MakeEngine, target: LoadedModel) -> None:
    prompt = "".join(f"def f{i}(a, b):\n    return a + {i} * b\n" for i in range(18))
    ids = torch.tensor([target.tokenizer(prompt)["input_ids"]], device=target.device)
    # Beyond the 512 keys that PyTorch's attention sums in one block, and many pieces.
    assert ids.shape[1] > 512 > 6 * PREFILL_CHUNK["cpu"]
    with with_own_attention(target) as model:
        theirs = model.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=256, pad_token_id=0)
    expected = [t for t in theirs[0, ids.shape[1] :].tolist() if t != EOS]
    for drafter in ("none", "./draft"):
        wanted = request(prompt=prompt, temperature=0.0, n=1, max_new_tokens=12)
        made = engine(drafter=drafter)
        roomy = Engine(made.config, replace(target, context_length=1024), made.draft)
        assert tokens_of(roomy, wanted)[0] == expected


def test_a_perfect_drafter_is_always_accepted(loaded: Callable, engine: MakeEngine, target: LoadedModel) -> None:
    made = without_eos(engine(target, drafter="./draft", draft_length="fixed:4"))
    completion = made.generate(request(n=1, max_new_tokens=41))
    assert all(n == d for r in completion.rounds for n, d in zip(r.accepted, r.drafted, strict=True))
    assert len(completion.rounds) == 1 + 40 / 5, "it does not draft in the first, which reads the prompt"


def test_a_drafter_that_is_always_wrong_changes_nothing(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine(drafter="ngram", draft_length="fixed:3")
    plain = tokens_of(engine(), request())
    # Token 255 is not in any of the plain texts, so no draft can be right.
    assert not any(255 in tokens for tokens in plain)
    monkeypatch.setattr(
        LookupDrafter,
        "propose",
        lambda self, rows, lengths: Proposal([[255] * k for k in lengths], [[Match(1, 1.0)] * k for k in lengths]),
    )
    completion = made.generate(request())
    assert [s.token_ids for s in completion.samples] == plain
    assert sum(s.n_accepted for s in completion.samples) == 0
    assert sum(s.n_drafted for s in completion.samples) > 0


@pytest.mark.parametrize("drafter", ["ngram", "sibling", "sibling+./draft"])
def test_earlier_answers_save_rounds_and_change_no_text(engine: MakeEngine, drafter: str) -> None:
    made, plain = engine(drafter=drafter, draft_length="fixed:4"), tokens_of(engine(), request(n=2))
    first, again = (made.generate(request(n=2, earlier_answers=True)) for _ in range(2))
    assert [s.token_ids for s in first.samples] == [s.token_ids for s in again.samples] == plain
    assert len(again.rounds) < len(first.rounds)


@pytest.mark.parametrize("drafter", ["ngram", "sibling"])
def test_a_request_that_forbids_it_learns_nothing_from_other_answers(engine: MakeEngine, drafter: str) -> None:
    made = engine(drafter=drafter, draft_length="fixed:4")
    first = made.generate(request(n=2))
    made.generate(request(n=2, earlier_answers=True))
    again = made.generate(request(n=2))
    assert [(r.drafted, r.accepted) for r in first.rounds] == [(r.drafted, r.accepted) for r in again.rounds]


def test_a_sample_does_not_depend_on_how_many_there_are(engine: MakeEngine) -> None:
    few, many = (tokens_of(engine(drafter="sibling"), request(n=n)) for n in (2, 9))
    assert many[:2] == few


@pytest.mark.parametrize("max_batch", [thorough(1), 2, thorough(4), thorough(7)])
@pytest.mark.parametrize("drafter", ["none", "sibling", "ngram+./draft"])
def test_waiting_samples_take_the_places_of_finished_ones(engine: MakeEngine, drafter: str, max_batch: int) -> None:
    # Short limits and a stop end rows in the same round and in different ones.
    for stop in ((), ("e",), ("a", "e", "i", "o", "u")):
        wanted = request(n=13, max_new_tokens=9, temperature=1.0, stop=stop)
        plain = [s.text for s in engine().generate(wanted).samples]
        completion = engine(drafter=drafter, max_batch=max_batch).generate(wanted)
        assert [s.text for s in completion.samples] == plain
        assert max(r.n_rows for r in completion.rounds) <= max_batch


def test_seeds_and_samples_differ(engine: MakeEngine) -> None:
    texts = [tuple(t) for seed in (1, 2) for t in tokens_of(engine(), request(seed=seed, n=3))]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10])
@pytest.mark.parametrize("drafter", ["none", "./draft"])
def test_a_length_limit_is_hit_exactly(engine: MakeEngine, drafter: str, limit: int) -> None:
    made = without_eos(engine(drafter=drafter))
    for sample in made.generate(request(max_new_tokens=limit, temperature=0.0)).samples:
        assert (sample.n_tokens, sample.finish_reason) == (limit, "length")


def test_a_stop_string_inside_an_accepted_block_cuts_the_block(engine: MakeEngine, target: LoadedModel) -> None:
    free = engine().generate(request(n=1)).samples[0]
    stop = free.text[6:9]
    at = free.text.index(stop)
    made = engine(target, drafter="./draft", draft_length="fixed:16")
    cut = made.generate(request(n=1, stop=(stop,))).samples[0]
    assert cut.text == free.text[:at]
    assert cut.token_ids == free.token_ids[: len(cut.token_ids)]
    assert (cut.finish_reason, len(cut.logprobs)) == ("stop", cut.n_tokens)
    assert cut.n_rounds == 2, "the first reads the prompt and does not draft"


def test_logprobs_are_the_targets_own_at_temperature_one(engine: MakeEngine, target: LoadedModel) -> None:
    sample = engine(drafter="./draft").generate(request(n=1, temperature=0.2)).samples[0]
    prompt = target.tokenizer(PROMPT)["input_ids"]
    with with_own_attention(target) as model, torch.inference_mode():
        ids = torch.tensor([prompt + sample.token_ids], device=target.device)
        logits = model(ids).logits[0, len(prompt) - 1 : -1].cpu()
    expected = logits[:, : target.vocab_size].log_softmax(1).gather(1, torch.tensor(sample.token_ids)[:, None])[:, 0]
    assert torch.allclose(torch.tensor(sample.logprobs), expected, atol=1e-4)


def test_a_budget_that_no_prefill_can_meet_still_answers(engine: MakeEngine) -> None:
    made = engine()
    made.generate(request())
    completion = made.generate(request(prompt=PROMPT * 8, budget_s=1e-6))
    assert [s.finish_reason for s in completion.samples] == ["deadline"] * 5
    assert all(s.text == "" for s in completion.samples)


def test_cancel_is_honoured_within_a_round(engine: MakeEngine) -> None:
    asked = 0

    def cancel() -> bool:
        nonlocal asked
        asked += 1
        return asked == 4

    endless = without_eos(engine())
    completion = endless.generate(request(max_new_tokens=400, temperature=1.0), should_cancel=cancel)
    assert len(completion.rounds) == 3
    assert {s.finish_reason for s in completion.samples} == {"cancelled"}


def test_updates_tell_each_sample_as_it_grows(engine: MakeEngine) -> None:
    seen: dict[int, list[Update]] = {}

    def note(updates: Sequence[Update]) -> None:
        for update in updates:
            seen.setdefault(update.index, []).append(update)

    completion = engine(drafter="ngram", max_batch=2).generate(request(), on_update=note)
    for sample in completion.samples:
        updates = seen[sample.index]
        assert updates[-1].text == sample.text
        assert updates[-1].finish_reason == sample.finish_reason
        assert [o for u in updates for o in u.origins] == sample.origins
        assert [end for u in updates for end in u.ends] == sample.ends
        assert all(u.ends[-1] <= len(u.text) for u in updates if u.ends)
        assert sample.ends == sorted(sample.ends)
        assert len(sample.ends) == sample.n_tokens
        assert [u.n_tokens for u in updates] == sorted(u.n_tokens for u in updates)
        assert sample.origins.count("draft") <= sample.n_accepted


def test_counts_agree_between_samples_and_rounds(engine: MakeEngine) -> None:
    completion = engine(drafter="sibling+./draft").generate(request())
    assert sum(sum(r.accepted) for r in completion.rounds) == sum(s.n_accepted for s in completion.samples)
    assert sum(sum(r.drafted) for r in completion.rounds) == sum(s.n_drafted for s in completion.samples)
    assert all(s.first_token_s <= s.finished_s <= completion.wall_s for s in completion.samples if s.token_ids)


def test_a_prompt_beyond_the_context_is_refused(engine: MakeEngine) -> None:
    with pytest.raises(RequestError, match="prompt is 600 tokens long and tiny can look at 512: shorten it"):
        engine().generate(request(prompt="a" * 600))


def test_a_prompt_that_fills_the_context_leaves_what_is_left(engine: MakeEngine) -> None:
    made = without_eos(engine(drafter="ngram"))
    (sample,) = made.generate(request(prompt="ab" * 253, n=1, temperature=0.0)).samples
    assert (sample.n_tokens, sample.finish_reason) == (6, "length")


@pytest.mark.parametrize(
    ("field", "value"),
    [("n", 0), ("n", 1025), ("budget_s", 0.0), ("budget_s", float("nan")), ("max_new_tokens", 0), ("prompt", "")],
)
def test_a_request_out_of_range_names_its_field(field: str, value: object) -> None:
    with pytest.raises(RequestError, match=field.removesuffix("_s")):
        Request(**{"prompt": "x", field: value})  # type: ignore[arg-type]


def test_a_model_whose_logits_are_not_numbers_fails_the_request_only(engine: MakeEngine, target: LoadedModel) -> None:
    made = engine()
    head = target.model.get_output_embeddings()
    hook = head.register_forward_hook(lambda module, inputs, out: out.fill_(float("nan")))
    try:
        with pytest.raises(BrokenModelError, match="tiny computed logits that are not numbers"):
            made.generate(request())
    finally:
        hook.remove()
    assert made.generate(request(n=1)).samples[0].text


def test_a_stop_string_that_never_comes_ends_at_the_length(engine: MakeEngine) -> None:
    made = without_eos(engine(drafter="ngram"))
    assert {s.finish_reason for s in made.generate(request(stop=("never to be seen",))).samples} == {"length"}


def test_samples_that_agree_are_computed_once(engine: MakeEngine) -> None:
    made = without_eos(engine())
    greedy = made.generate(request(n=8, temperature=0.0))
    assert {r.n_rows for r in greedy.rounds} == {1}
    assert sum(r.n_emitted for r in greedy.rounds) == sum(s.n_tokens for s in greedy.samples) == 8 * 32
    warm = made.generate(request(n=8, temperature=1.0))
    assert max(r.n_rows for r in warm.rounds) > 1


def test_samples_with_a_draft_model_under_the_maximal_rule_have_rows_of_their_own(engine: MakeEngine) -> None:
    completion = without_eos(engine(drafter="./draft", acceptance="maximal")).generate(request(n=4))
    assert completion.rounds[0].n_rows == 4


PROMPTS = [PROMPT, "x = [1, 2, 3]\nfor i in x:", "import os\n\n\ndef read(path):\n    " * 4, "class A:"]


@pytest.mark.parametrize("max_batch", [thorough(2), 5, thorough(16)])
@pytest.mark.parametrize("drafter", ["none", "sibling", "./draft", "ngram+./draft"])
@pytest.mark.parametrize("acceptance", ["coupled", thorough("maximal")])
def test_prompts_decoded_in_one_batch_get_the_samples_they_get_alone(
    engine: MakeEngine, plain_tokens: Plain, drafter: str, max_batch: int, acceptance: str
) -> None:
    # Under the maximal rule a sample depends on its drafts, and so on the policy; greedy decoding does not.
    temperature = 0.8 if acceptance == "coupled" else 0.0
    wanted = [request(prompt=p, n=n, temperature=temperature) for n, p in enumerate(PROMPTS, start=2)]
    alone = [plain_tokens(each) for each in wanted]
    made = engine(drafter=drafter, max_batch=max_batch, acceptance=acceptance)
    together = {i: outcome.samples for i, outcome in made.generate_many(wanted)}
    assert [[s.token_ids for s in together[i]] for i in range(4)] == alone


def test_the_next_prompt_takes_places_as_they_become_free(engine: MakeEngine) -> None:
    made = without_eos(engine(max_batch=4))
    taken: list[int] = []

    def wanted() -> Iterator[Request]:
        for i, limit in enumerate((8, 30, 8)):
            taken.append(i)
            yield request(n=2, max_new_tokens=limit, temperature=1.0)

    order = []
    for position, outcome in made.generate_many(wanted()):
        order.append(position)
        assert {s.n_tokens for s in outcome.samples} == {30 if position == 1 else 8}
        if len(order) == 1:
            assert taken == [0, 1]
    assert order == [0, 2, 1]


def test_one_request_of_many_fails_alone(engine: MakeEngine) -> None:
    wanted = [request(), request(prompt="a" * 600), request(seed=4)]
    outcomes = dict(engine(max_batch=8).generate_many(wanted))
    assert "prompt is 600 tokens long" in str(outcomes[1])
    assert len(outcomes[0].samples) == len(outcomes[2].samples) == 5


SAMPLINGS = [
    SamplingParams(0.0),
    SamplingParams(0.8, top_p=0.95),
    SamplingParams(1.0, top_p=1.0),
    SamplingParams(1.2, top_p=1.0, top_k=5),
    SamplingParams(10.0, top_p=0.99),  # a nucleus wider than the first search
]


@pytest.mark.parametrize("drafter", EACH_KIND)
def test_requests_with_different_sampling_in_one_batch_get_the_samples_they_get_alone(
    engine: MakeEngine, plain_tokens: Plain, drafter: str
) -> None:
    wanted = [replace(request(n=3, max_new_tokens=24), sampling=sampling) for sampling in SAMPLINGS]
    alone = [plain_tokens(each) for each in wanted]
    together = dict(engine(drafter=drafter, draft_length="fixed:3").generate_many(wanted))
    assert [[s.token_ids for s in together[i].samples] for i in range(len(wanted))] == alone


def test_one_request_of_many_is_cancelled_alone(engine: MakeEngine) -> None:
    made = without_eos(engine(max_batch=4))
    wanted = [request(n=2, max_new_tokens=30), request(n=2, max_new_tokens=8)]
    outcomes = dict(made.generate_many(wanted, should_cancel=lambda position: position == 0))
    assert {s.finish_reason for s in outcomes[0].samples} == {"cancelled"}
    assert {s.finish_reason for s in outcomes[1].samples} == {"length"}


def test_updates_of_many_requests_name_their_position(engine: MakeEngine) -> None:
    texts: dict[tuple[int, int], str] = {}

    def note(position: int, updates: Sequence[Update]) -> None:
        texts.update({(position, u.index): u.text for u in updates})

    wanted = [request(prompt=p, n=3) for p in PROMPTS]
    for position, outcome in engine(drafter="sibling", max_batch=6).generate_many(wanted, on_update=note):
        assert [texts[position, s.index] for s in outcome.samples] == [s.text for s in outcome.samples]
