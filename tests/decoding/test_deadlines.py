"""Deadlines on a simulated clock: what a machine that changes its speed returns, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from decoding.attention.block_runner import BlockRunner
from decoding.engine import Engine
from decoding.request import Completion, Request, RequestError, SamplingParams
from tests.decoding.conftest import FORWARD_S, TOKEN_S, Machine
from tests.thorough import thorough

LONG = "x = 1\n" * 80  # 480 tokens: 1.2 s of prefill, and half a piece
SHORT = "def add(a, b):"
PIECE_S = FORWARD_S + 64 * TOKEN_S
PREFILL_S = 8 * FORWARD_S + (len(LONG) - 1) * TOKEN_S


@pytest.fixture
def unending(engine: Callable[..., Engine], machine: Machine) -> Callable[..., Engine]:
    """Make an engine whose samples never end by themselves, and that has measured its verifies."""

    def make(**settings: object) -> Engine:
        made = engine(**{"drafter": "none", "draft_length": "fixed:2", "max_batch": 16, **settings})
        made = Engine(made.config, replace(made.target, vocab_size=256), made.draft)
        assert made.costs.round_cost.verify(1)
        machine.now = 0.0
        return made

    return make


def asked(prompt: str = LONG, **changes: Any) -> Request:
    return Request(prompt, sampling=SamplingParams(1.0), **{"max_new_tokens": 400, **changes})


@pytest.mark.parametrize("drafter", [thorough("none"), "./draft"])
@pytest.mark.parametrize("n", [thorough(1), 16])
def test_whatever_the_speed_a_request_ends_within_a_piece_of_its_deadline_and_has_tokens_if_a_round_fits(
    n: int, drafter: str, unending: Callable[..., Engine], machine: Machine
) -> None:
    made = unending(drafter=drafter)
    models = 1 if drafter == "none" else 2
    made.generate(asked(max_new_tokens=2))
    for slowness in (1.0, 4.0, 4.0, 1.0, 0.25, 1.0, 4.0):  # the first request at each speed finds another believed
        machine.slowness = slowness
        for budget_s in (1.5 * PREFILL_S * models, 0.05, 0.3, PREFILL_S * models, 3.0, 5.2 * PREFILL_S * models):
            started = machine.now
            completion = made.generate(asked(n=n, budget_s=budget_s, max_new_tokens=4))
            took = machine.now - started
            dearest_round_s = max((r.draft_s + r.verify_s + r.other_s for r in completion.rounds), default=0.0)
            assert took <= budget_s + max(slowness * PIECE_S, dearest_round_s) + 1e-9, (slowness, budget_s)
            first_round_s = slowness * 3 * (FORWARD_S + 3 * n * TOKEN_S)
            if PREFILL_S * models * slowness + first_round_s <= budget_s:
                assert all(sample.token_ids for sample in completion.samples), (slowness, budget_s)
            assert all(s.token_ids or s.finish_reason == "deadline" for s in completion.samples)


@pytest.mark.parametrize("drafter", ["trained", "sibling+trained"])
def test_a_head_reads_a_prompt_in_chunks_before_each_of_which_the_clock_is_asked(
    drafter: str, engine: Callable[..., Engine], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = BlockRunner.read

    def priced(runner: BlockRunner, counts: Sequence[int], first_slot: int = 0) -> Any:
        machine.spend(sum(counts))
        return read(runner, counts, first_slot)

    monkeypatch.setattr(BlockRunner, "read", priced)
    made = engine(drafter=drafter, draft_length="fixed:2")
    made.generate(asked(max_new_tokens=2))
    for budget_s in (PREFILL_S + 0.05, PREFILL_S + 0.5, 1.7 * PREFILL_S):
        started = machine.now
        completion = made.generate(asked(budget_s=budget_s))
        # The head's first chunk is read while any time is left, because nothing in this batch says what it costs.
        assert machine.now - started <= budget_s + PIECE_S + 1e-9
        assert {(s.finish_reason, s.n_tokens) for s in completion.samples} == {("deadline", 0)}
        assert completion.rounds == []


def test_a_prefill_that_cannot_be_done_in_time_ends_as_soon_as_that_is_measured(
    unending: Callable[..., Engine], machine: Machine
) -> None:
    made = unending()
    for _ in range(8):
        started = machine.now
        completion = made.generate(asked(n=3, budget_s=0.4))
        assert machine.now - started <= PIECE_S + 1e-9
        assert [(s.finish_reason, s.token_ids) for s in completion.samples] == [("deadline", [])] * 3
        assert completion.prefill_s == completion.wall_s


def test_a_prefill_stops_between_pieces_when_the_machine_slows_down(
    unending: Callable[..., Engine], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = unending()
    made.generate(asked())
    begun = machine.now
    spend = Machine.spend

    def slowing(simulated: Machine, n_tokens: int) -> None:
        simulated.slowness = 4.0 if simulated.now - begun > 0.5 else 1.0
        spend(simulated, n_tokens)

    monkeypatch.setattr(Machine, "spend", slowing)
    completion = made.generate(asked(budget_s=2.0))
    assert machine.now - begun <= 2.0 + 4 * PIECE_S
    assert completion.samples[0].finish_reason == "deadline"


def test_after_a_stall_requests_are_answered_again(unending: Callable[..., Engine], machine: Machine) -> None:
    made = unending()
    machine.slowness = 1000.0
    made.generate(asked(max_new_tokens=2))
    machine.slowness = 1.0
    answered = [bool(made.generate(asked(budget_s=2.0)).samples[0].token_ids) for _ in range(12)]
    assert answered[-1]
    assert answered == sorted(answered)


@pytest.mark.parametrize("prompt", [SHORT, LONG])
def test_what_was_measured_under_load_ends_no_request_before_it_was_tried(
    prompt: str, unending: Callable[..., Engine], machine: Machine
) -> None:
    made = unending()
    machine.slowness = 50.0
    made.generate(asked(prompt, n=8, max_new_tokens=4))
    machine.slowness = 1.0
    for _ in range(3):
        budget_s = 0.25 if prompt == SHORT else 1.1 * PREFILL_S + 0.1
        assert made.generate(asked(prompt, budget_s=budget_s)).samples[0].token_ids


def test_one_slow_round_of_others_ends_no_newcomer(unending: Callable[..., Engine], machine: Machine) -> None:
    made = unending(draft_length="fixed:0")
    round_s = FORWARD_S + TOKEN_S
    n_forwards, forwards = 0, Machine.spend

    def stalling(simulated: Machine, n_tokens: int) -> None:
        nonlocal n_forwards
        n_forwards += 1
        simulated.slowness = 20.0 if n_forwards == 4 else 1.0
        forwards(simulated, n_tokens)

    def arriving() -> Iterator[Request | None]:
        yield asked(SHORT, budget_s=30.0, max_new_tokens=40)
        while n_forwards < 5:
            yield None
        yield asked(SHORT, seed=1, budget_s=10 * round_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machine, "spend", stalling)
        outcomes = dict(made.serve(arriving()))
    assert outcomes[1].samples[0].token_ids  # type: ignore[union-attr]


def test_requests_without_a_chance_do_not_keep_out_one_that_has_one(
    unending: Callable[..., Engine], machine: Machine
) -> None:
    made = unending()
    made.generate(asked(SHORT, max_new_tokens=2))
    machine.slowness = 20.0  # a round takes longer than the hopeless have
    wanted = [*(asked(SHORT, seed=i, budget_s=0.3) for i in range(20)), asked(SHORT, n=2, budget_s=8.0)]
    outcomes = dict(made.serve(iter(wanted)))
    assert all(sample.n_tokens > 1 for sample in outcomes[20].samples)  # type: ignore[union-attr]


def test_a_request_that_is_ended_comes_back_before_the_next_round_of_others(
    unending: Callable[..., Engine], machine: Machine
) -> None:
    made = unending()
    returned = {}
    for position, _ in made.generate_many([asked(SHORT, max_new_tokens=30), asked(SHORT, budget_s=0.31)]):
        returned[position] = machine.now
    assert returned[1] <= 0.31


def test_a_long_prefill_lets_others_come_back_in_time(unending: Callable[..., Engine], machine: Machine) -> None:
    made = unending()
    returned: dict[int, float] = {}

    def wanted() -> Iterator[Request]:
        yield asked(SHORT, budget_s=0.7)
        yield asked(SHORT, budget_s=30.0, max_new_tokens=5)
        yield asked(LONG)

    outcomes: dict[int, Completion | RequestError] = {}
    for position, outcome in made.generate_many(wanted()):
        returned[position], outcomes[position] = machine.now, outcome
    assert returned[0] <= 0.7 + PIECE_S
    assert [s.finish_reason for i in range(3) for s in outcomes[i].samples] == ["deadline", "length", "length"]  # type: ignore[union-attr]


def test_a_request_is_cancelled_between_two_pieces_of_its_prompt(
    unending: Callable[..., Engine], machine: Machine
) -> None:
    completion = unending().generate(asked(n=2), should_cancel=lambda: True)
    assert machine.now <= PIECE_S + 1e-9
    assert [s.finish_reason for s in completion.samples] == ["cancelled"] * 2


@pytest.mark.parametrize("drafter", ["none", "./draft", "sibling+./draft"])
def test_what_a_stopped_prefill_leaves_behind_harms_nobody(
    drafter: str, unending: Callable[..., Engine], machine: Machine
) -> None:
    wanted = [
        asked(SHORT, n=2, max_new_tokens=9),
        asked(LONG, n=3, budget_s=0.3),
        asked(SHORT, n=2, seed=1, max_new_tokens=9),
    ]
    alone = [[s.token_ids for s in unending().generate(each).samples] for each in (wanted[0], wanted[2])]
    outcomes = dict(unending(drafter=drafter).generate_many(wanted))
    assert [[s.token_ids for s in outcomes[i].samples] for i in (0, 2)] == alone  # type: ignore[union-attr]
    assert {s.finish_reason for s in outcomes[1].samples} == {"deadline"}  # type: ignore[union-attr]


def test_every_sample_comes_back_with_its_state_when_time_is_up(
    unending: Callable[..., Engine], machine: Machine
) -> None:
    made = unending(drafter="sibling", max_batch=2)
    whole = made.generate(asked(SHORT, n=5, max_new_tokens=40))
    completion = made.generate(asked(SHORT, n=5, budget_s=0.6 * whole.wall_s))
    assert [s.index for s in completion.samples] == [0, 1, 2, 3, 4]
    cut = [s for s in completion.samples if s.finish_reason == "deadline"]
    assert cut, "the budget cut nothing"
    assert all(s.finished_s is not None for s in completion.samples)
    for sample, unhurried in zip(completion.samples, whole.samples, strict=True):
        assert sample.token_ids[:40] == unhurried.token_ids[: sample.n_tokens]


@pytest.mark.parametrize("n", [thorough(1), 4, thorough(9)])
def test_whatever_the_budget_no_request_overruns_by_more_than_a_round(
    n: int, unending: Callable[..., Engine], machine: Machine
) -> None:
    made = unending(drafter="sibling")
    made.generate(asked(SHORT, max_new_tokens=20))
    for i in range(20):
        budget_s = 0.04 + 0.06 * i
        started = machine.now
        completion = made.generate(asked(SHORT, n=n, budget_s=budget_s))
        assert {s.finish_reason for s in completion.samples} == {"deadline"}
        slowest_s = max((r.draft_s + r.verify_s + r.other_s for r in completion.rounds), default=0.0)
        assert machine.now - started <= budget_s + max(slowest_s, completion.prefill_s) + 1e-9


def test_a_sample_is_timed_from_the_start_of_its_request(unending: Callable[..., Engine], machine: Machine) -> None:
    started = machine.now
    prompt = "x" * 65  # a piece, and the token that the first round begins with
    completion = unending().generate(asked(prompt, n=2, max_new_tokens=3))
    assert [s.finished_s for s in completion.samples] == pytest.approx([machine.now - started] * 2)
    assert completion.prefill_s == pytest.approx(FORWARD_S + 64 * TOKEN_S)


def test_each_of_many_requests_has_a_deadline_of_its_own(unending: Callable[..., Engine], machine: Machine) -> None:
    made = unending()
    made.generate(asked(SHORT, max_new_tokens=4))
    outcomes = dict(made.generate_many([asked(SHORT, n=2, max_new_tokens=60), asked(SHORT, n=2, budget_s=0.5)]))
    assert {s.finish_reason for s in outcomes[0].samples} == {"length"}  # type: ignore[union-attr]
    assert {s.finish_reason for s in outcomes[1].samples} == {"deadline"}  # type: ignore[union-attr]
    assert all(s.token_ids for s in outcomes[1].samples)  # type: ignore[union-attr]


def test_a_newcomer_is_priced_by_its_own_prompt_and_waits_for_those_it_would_end(
    unending: Callable[..., Engine], machine: Machine
) -> None:
    made = unending()
    made.generate(asked())
    alone = made.generate(asked(SHORT, max_new_tokens=40))
    budget_s = alone.wall_s + 0.05 * PREFILL_S  # too short for both
    started = machine.now
    outcomes = dict(made.generate_many([asked(SHORT, budget_s=budget_s, max_new_tokens=40), asked(budget_s=9.0)]))
    first, second = (outcomes[i] for i in range(2))
    assert isinstance(first, Completion)
    assert isinstance(second, Completion)
    assert [s.n_tokens for s in first.samples] == [40]
    assert second.samples[0].n_tokens
    assert machine.now - started >= second.wall_s + alone.wall_s - 1e-9, "the newcomer's clock starts when it joins"
