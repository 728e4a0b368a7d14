"""Requests that arrive while others are decoded: the same texts, their own clocks, and nobody's promise broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from decoding.engine import Engine
from decoding.loop import intake
from decoding.loop.admission import SampleLengthModel
from decoding.request import Completion, FinishReason, Request, RequestError, Sample, SamplingParams
from tests.decoding.conftest import FORWARD_S, TOKEN_S, Machine, arriving

MakeEngine = Callable[..., Engine]
PROMPTS = ["def add(a, b):", "x = [1, 2, 3]\nfor i in x:", "import os\n\n\ndef read(path):\n    " * 4, "class A:"]
DRAFTERS = ["none", "ngram", "sibling", "./draft", "sibling+./draft", "trained", "ngram+trained"]


def asked(prompt: str = PROMPTS[0], **changes: Any) -> Request:
    return Request(prompt, sampling=SamplingParams(1.0), **{"max_new_tokens": 40, **changes})


def answers(outcomes: Iterator[tuple[int, Completion | RequestError]]) -> dict[int, Completion]:
    found = dict(outcomes)
    assert all(isinstance(outcome, Completion) for outcome in found.values())
    return found  # type: ignore[return-value]


ARRIVALS = [("none", 1), ("sibling+./draft", 0), ("sibling+./draft", 1), ("ngram+trained", 4)]
OTHER_ARRIVALS = [one for one in product(DRAFTERS, (0, 1, 4)) if one not in ARRIVALS]


@pytest.mark.parametrize(
    ("drafter", "every"), [*ARRIVALS, *(pytest.param(*one, marks=pytest.mark.thorough) for one in OTHER_ARRIVALS)]
)
def test_a_request_gets_the_samples_in_company_that_it_gets_alone(engine: MakeEngine, drafter: str, every: int) -> None:
    wanted = [asked(p, n=n, seed=n) for n, p in enumerate(PROMPTS, 2)]
    alone = [[s.token_ids for s in engine().generate(each).samples] for each in wanted]
    together = answers(engine(drafter=drafter).serve(arriving(*wanted, every=every)))
    assert [[s.token_ids for s in together[i].samples] for i in range(len(wanted))] == alone


def test_a_request_that_cannot_be_honoured_is_answered_and_the_others_go_on(engine: MakeEngine) -> None:
    outcomes = dict(engine().serve(arriving(asked(), asked("a" * 600), asked(seed=4), every=1)))
    assert "prompt is 600 tokens long" in str(outcomes[1])
    assert isinstance(outcomes[0], Completion)
    assert isinstance(outcomes[2], Completion)


def test_a_source_is_asked_again_after_it_had_nothing(engine: MakeEngine) -> None:
    outcomes = answers(engine().serve(iter([None, None, asked(), *[None] * 200, asked(seed=1)])))
    assert sorted(outcomes) == [0, 1]


@pytest.fixture
def unending(engine: MakeEngine) -> MakeEngine:
    """Make an engine whose samples end by their length only, and which knows that."""

    def make(**settings: object) -> Engine:
        made = engine(**{"drafter": "none", "draft_length": "fixed:0", **settings})
        served = Engine(made.config, replace(made.target, vocab_size=256), made.draft)
        served.generate(asked(PROMPTS[2] * 2, max_new_tokens=40))
        assert served.costs.round_cost(1, 1, 1)  # measured here, not on somebody's clock
        return served

    return make


def at(machine: Machine, arrivals: Sequence[tuple[float, Request]]) -> Iterator[Request | None]:
    """Yield each request once its time has come, its waiting included; let time pass while nothing is running."""
    started = machine.now
    for seconds, request in arrivals:
        last, n_asked = machine.now, 0
        while machine.now < started + seconds:
            yield None
            n_asked = n_asked + 1 if machine.now == last else 0
            if n_asked == 3:  # more often than it is asked before a round
                machine.now = started + seconds
            last = machine.now
        yield replace(request, waited_s=max(machine.now - started - seconds, 0.0))


@pytest.mark.parametrize("n", [1, 4])
def test_no_request_is_answered_after_its_budget_by_more_than_a_round(
    n: int, unending: MakeEngine, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_MAX_WAITING", 100)  # what is left to others is theirs to answer
    made = unending()
    started = machine.now
    arrivals = [(0.1 * i, asked(PROMPTS[i % 4], n=n, seed=i, budget_s=0.3 + 0.2 * (i % 7))) for i in range(30)]
    ended = {}
    slowest_s = 0.0
    for position, outcome in made.serve(at(machine, arrivals)):
        assert isinstance(outcome, Completion)
        ended[position] = machine.now - started
        slowest_s = max([slowest_s, *(r.draft_s + r.verify_s + r.other_s for r in outcome.rounds)])
    assert sorted(ended) == list(range(30))
    piece_s = FORWARD_S + 64 * TOKEN_S
    late = {i: ended[i] - seconds - request.budget_s for i, (seconds, request) in enumerate(arrivals)}  # type: ignore[operator]
    assert max(late.values()) <= max(slowest_s, piece_s) + 1e-9, late


def test_times_of_a_sample_count_from_the_moment_its_request_was_accepted(
    unending: MakeEngine, machine: Machine
) -> None:
    outcome = answers(unending().serve(iter([asked(n=1, max_new_tokens=3, waited_s=1.5)])))[0]
    assert outcome.waited_s == pytest.approx(1.5)
    assert outcome.samples[0].finished_s == pytest.approx(1.5 + outcome.wall_s)


def test_a_budget_that_is_spent_before_the_request_comes_gives_an_answer_without_tokens(
    unending: MakeEngine, machine: Machine
) -> None:
    outcome = answers(unending().serve(iter([asked(n=3, budget_s=1.0, waited_s=1.2)])))[0]
    assert [(s.n_tokens, s.finish_reason) for s in outcome.samples] == [(0, "deadline")] * 3


def test_a_request_waits_if_a_longer_round_would_make_another_miss_its_deadline(
    unending: MakeEngine, machine: Machine
) -> None:
    made = unending()
    alone_s = answers(made.serve(iter([asked(n=4)])))[0].wall_s
    tight = asked(n=4, budget_s=1.1 * alone_s)
    late = asked(PROMPTS[2], n=4, budget_s=10 * alone_s)
    outcomes = answers(made.serve(at(machine, [(0.0, tight), (0.05, late)])))
    assert {s.finish_reason for s in outcomes[0].samples} == {"length"}, "the second was let in too early"
    assert {s.finish_reason for s in outcomes[1].samples} == {"length"}
    assert outcomes[1].waited_s > 0.5 * alone_s


def test_a_request_with_time_to_share_lets_another_in_at_once(unending: MakeEngine, machine: Machine) -> None:
    made = unending()
    wanted = [asked(n=4, budget_s=30.0), asked(n=4, seed=1, budget_s=30.0)]
    outcomes = answers(made.serve(at(machine, [(0.0, wanted[0]), (0.1, wanted[1])])))
    assert outcomes[1].waited_s < 0.1


def test_a_request_does_not_wait_to_spare_those_that_would_lose_as_much_later(
    unending: MakeEngine, machine: Machine
) -> None:
    made = unending()
    alone_s = answers(made.serve(iter([asked(n=2)])))[0].wall_s
    wanted = [asked(PROMPTS[i % 4], n=2, seed=i, budget_s=2 * alone_s) for i in range(16)]
    outcomes = answers(made.serve(at(machine, [(0.5 * alone_s * i, each) for i, each in enumerate(wanted)])))
    waited_s = [outcomes[i].waited_s for i in range(len(wanted))]
    assert max(waited_s) < 0.1 * alone_s
    assert {s.finish_reason for i in outcomes for s in outcomes[i].samples} == {"length"}


def test_of_requests_that_wait_the_one_with_the_earliest_deadline_joins_first(
    unending: MakeEngine, machine: Machine
) -> None:
    made = unending(max_batch=1)
    made._pool.drop_graphs()
    budgets = [30.0, 9.0, 20.0, 6.0]
    order: list[int] = []
    wanted = [asked(n=32, seed=i, budget_s=budget) for i, budget in enumerate(budgets)]
    for position, _ in made.serve(iter(wanted)):
        order.append(position)
    assert order[0] in (0, 3)
    assert [i for i in order if i not in (0,)] == sorted((1, 2, 3), key=lambda i: budgets[i])


def test_one_that_cannot_end_in_time_lets_those_that_can_go_first(unending: MakeEngine, machine: Machine) -> None:
    made = unending()
    alone_s = answers(made.serve(iter([asked(n=32)])))[0].wall_s
    budgets = [1.2 * alone_s, 1.3 * alone_s, 2.4 * alone_s]
    wanted = [asked(n=32, seed=i, budget_s=budget) for i, budget in enumerate(budgets)]
    outcomes = answers(made.serve(iter(wanted)))
    assert {s.finish_reason for s in outcomes[2].samples} == {"length"}
    assert {s.finish_reason for s in outcomes[1].samples} == {"deadline"}


def test_a_request_that_allows_it_gets_fewer_samples_while_places_are_short(
    unending: MakeEngine, machine: Machine
) -> None:
    made = unending()
    outcomes = answers(made.serve(iter([asked(n=45), asked(n=8, n_min=2, seed=1), asked(n=2, seed=2)])))
    assert len(outcomes[1].samples) == 3
    whole = made.generate(asked(n=8, seed=1))
    assert [s.token_ids for s in outcomes[1].samples] == [s.token_ids for s in whole.samples[:3]]
    assert len(outcomes[2].samples) == 2


def test_many_that_come_at_once_do_not_make_the_round_that_reads_their_prompts_too_long(
    unending: MakeEngine, machine: Machine
) -> None:
    made = unending()
    rest = "x = 1\n" * 10  # less than a piece, so that the first round reads it
    budget_s = 5 * (FORWARD_S + 60 * TOKEN_S)
    wanted = [asked(rest, n=1, seed=i, budget_s=budget_s) for i in range(4)] * 3
    outcomes = answers(made.serve(iter(wanted)))
    answered = [outcome for outcome in outcomes.values() if outcome.rounds]
    assert len(answered) > 1
    assert all(outcome.rounds[0].started_s < budget_s for outcome in answered)
    first_s = [each.rounds[0].draft_s + each.rounds[0].verify_s + each.rounds[0].other_s for each in answered]
    assert max(each.rounds[0].started_s + seconds for each, seconds in zip(answered, first_s, strict=True)) <= budget_s


def test_a_cancelled_request_frees_its_places_before_the_next_round(unending: MakeEngine, machine: Machine) -> None:
    made = unending()
    rounds: list[int] = []
    gone = [False]

    def note(position: int, updates: Sequence[Any]) -> None:
        rounds.append(position)
        gone[0] = gone[0] or rounds.count(0) == 3

    wanted = [asked(n=4), asked(n=4, seed=1)]
    outcomes = answers(made.serve(iter(wanted), note, lambda position: position == 0 and gone[0]))
    assert {s.finish_reason for s in outcomes[0].samples} == {"cancelled"}
    assert {s.n_tokens for s in outcomes[0].samples} == {3}
    assert {s.finish_reason for s in outcomes[1].samples} == {"length"}


def test_a_cancelled_request_that_waits_is_answered_without_having_joined(
    unending: MakeEngine, machine: Machine
) -> None:
    made = unending()
    outcomes = made.serve(iter([asked(n=32), asked(n=2, seed=1)]), None, lambda position: position == 1)
    position, outcome = next(outcomes)
    assert position == 1
    assert isinstance(outcome, Completion)
    assert [s.finish_reason for s in outcome.samples] == ["cancelled"] * 2


def ended(*lengths: int, reason: FinishReason = "stop") -> list[Sample]:
    return [Sample(0, 0, token_ids=[1] * n, n_rounds=n // 2, finish_reason=reason) for n in lengths]


def test_of_a_long_sample_is_expected_what_longer_ones_had_left() -> None:
    lengths = SampleLengthModel()
    lengths.observe(ended(*[10, 20, 60] * 85))  # so many that what is usual elsewhere is forgotten
    assert lengths.estimate_tokens_left(0, 100) == pytest.approx(30, abs=1)
    assert lengths.estimate_tokens_left(15, 100) == pytest.approx(25, abs=1)
    assert lengths.estimate_tokens_left(15, 30) == 15
    assert lengths.pace == 2.0


def test_samples_that_were_cut_off_make_the_expected_length_longer() -> None:
    lengths = SampleLengthModel()
    lengths.observe(ended(*[10] * 100))
    before = lengths.estimate_tokens_left(0, 400)
    lengths.observe(ended(*[100] * 10, reason="deadline"))
    assert lengths.estimate_tokens_left(0, 400) > 1.5 * before
    assert lengths.estimate_tokens_left(90, 400) == 310, "none of that length has ever ended"
