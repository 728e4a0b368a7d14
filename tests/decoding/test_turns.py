"""A long prompt is read between the rounds of the others: the same texts, a fair share of time, nothing left over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.attention.runner import ModelRunner
from decoding.engine import Engine
from decoding.loop import turns
from decoding.loop.turns import ReadingTurns, compute_reading_share
from decoding.request import Completion, Request, SamplingParams
from tests.decoding.conftest import Machine, arriving, texts
from tests.thorough import thorough

MakeEngine = Callable[..., Engine]
SHORT, LONG = "def add(a, b):", "x = 1\n" * 75  # 450 tokens: seven whole chunks, and the rest
DRAFTERS = [*map(thorough, ("none", "sibling", "trained")), "sibling+./draft", "ngram+trained"]


@pytest.fixture(autouse=True)
def _short_prompts_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_CHUNKS_AT_ONCE", 4)


def asked(prompt: str, **changes: Any) -> Request:
    return Request(prompt, sampling=SamplingParams(0.8), **{"n": 2, "max_new_tokens": 30, **changes})


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the target's forwards were, in order: a chunk of a prompt, or a round."""
    seen: list[str] = []
    forward = ModelRunner.forward

    def noted(runner: ModelRunner, tokens: Sequence[Sequence[int]], **options: Any) -> Any:
        seen.append("chunk" if options.get("whole") else "round")
        return forward(runner, tokens, **options)

    monkeypatch.setattr(ModelRunner, "forward", noted)
    return seen


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("every", [0, thorough(3)])
def test_texts_beside_a_long_prompt_are_those_that_each_has_alone(
    drafter: str, every: int, engine: MakeEngine, forwards: list[str]
) -> None:
    wanted = [
        asked(SHORT),
        asked(LONG, seed=1, max_new_tokens=8, n=3),
        asked("class A:", seed=2, prefix_cache=True),
        asked(LONG + "y", seed=3, max_new_tokens=4, prefix_cache=True),
        asked("import os", seed=4),
    ]
    alone = [texts(engine().generate(each)) for each in wanted]
    made = engine(drafter=drafter)
    made.generate(asked(SHORT, max_new_tokens=2))
    forwards.clear()
    outcomes = dict(made.serve(arriving(*wanted, every=every)))
    assert [texts(outcomes[i]) for i in range(len(wanted))] == alone
    first, last = forwards.index("chunk"), len(forwards) - forwards[::-1].index("chunk")
    assert "round" in forwards[first:last], "the others waited for the long prompt"


def test_while_a_long_prompt_is_read_the_others_have_their_share_of_the_time(
    engine: MakeEngine, machine: Machine
) -> None:
    made = engine(drafter="none", draft_length="fixed:0")
    made.generate(asked(LONG))
    progress: list[tuple[int, float]] = []
    wanted = [asked(SHORT, seed=i, max_new_tokens=300) for i in range(3)]

    def note(position: int, updates: Sequence[Any]) -> None:
        progress.append((position, machine.now))

    outcomes = dict(made.serve(arriving(*wanted, asked(LONG, n=1), every=1), note))
    read = outcomes[3]
    assert isinstance(read, Completion)
    begun = next(now for position, now in progress if position == 3) - read.rounds[0].verify_s
    times = [now for position, now in progress if position == 0 and begun - read.prefill_s < now < begun]
    chunk_s = 0.02 + 64 * 0.0022
    assert read.prefill_s > 7 * chunk_s * 1.7, "three chunks of seven take a quarter of the time each"
    assert len(times) > 3


@pytest.mark.parametrize("budget_s", [1.5, 60.0])
def test_a_long_prompt_whose_request_has_little_time_does_not_wait_for_the_others(
    budget_s: float, engine: MakeEngine, machine: Machine
) -> None:
    made = engine(drafter="none", draft_length="fixed:0")
    made.generate(asked(LONG))
    wanted = [asked(SHORT, seed=i, max_new_tokens=200) for i in range(3)]
    outcome = dict(made.serve(arriving(*wanted, asked(LONG, n=1, max_new_tokens=2, budget_s=budget_s), every=1)))[3]
    assert isinstance(outcome, Completion)
    assert texts(outcome)[0], "it was read in time"
    is_hurried = outcome.prefill_s < 7.5 * (0.02 + 64 * 0.0022)
    assert is_hurried == (budget_s < 2)


def test_a_request_that_comes_while_a_long_prompt_is_read_need_not_wait_for_it(
    engine: MakeEngine, machine: Machine
) -> None:
    made = engine(drafter="none", draft_length="fixed:0")
    made.generate(asked(LONG))
    ended: list[int] = []
    wanted = [asked(LONG, n=1, max_new_tokens=5), asked(LONG + "y", n=1), asked(SHORT, max_new_tokens=2)]
    for position, _ in made.serve(arriving(*wanted, every=0)):
        ended.append(position)
    assert ended == [2, 0, 1], "nor for a second long one that came before it"


@pytest.mark.parametrize(
    ("drafter", "reason"),
    [
        ("sibling+./draft", "cancelled"),
        ("ngram+trained", "deadline"),
        thorough("sibling+./draft", "deadline"),
        thorough("ngram+trained", "cancelled"),
    ],
)
def test_a_request_that_ends_before_its_long_prompt_is_read_leaves_nothing(
    reason: str, drafter: str, engine: MakeEngine, machine: Machine, forwards: list[str]
) -> None:
    made = engine(drafter=drafter)
    alone = texts(made.generate(asked(SHORT, max_new_tokens=100)))
    made.generate(asked(LONG))
    forwards.clear()

    def is_being_read() -> bool:
        return "chunk" in forwards and "round" in forwards[forwards.index("chunk") :]

    def is_cancelled(position: int) -> bool:
        return reason == "cancelled" and position == 1 and is_being_read()

    def arrive() -> Iterator[Request | None]:
        yield asked(SHORT, max_new_tokens=100)
        yield None
        yield asked(LONG, n=1, budget_s=60.0)
        while not is_being_read():
            yield None
        if reason == "deadline":
            machine.now += 60.0
        yield None

    outcomes = dict(made.serve(arrive(), None, is_cancelled))
    assert texts(outcomes[0]) == alone
    long = outcomes[1]
    assert isinstance(long, Completion)
    assert [(s.n_tokens, s.finish_reason) for s in long.samples] == [(0, reason)]
    assert not long.rounds, "it took part in no round"
    assert all(pool.n_used == 0 for pool in made._pool._pools)


@given(st.integers(0, 100), st.floats(0, 1e4), st.one_of(st.floats(-1, 1e4), st.just(float("inf"))))
def test_the_share_of_a_prompt_is_a_twentieth_at_least_and_lets_it_be_read_in_time(
    n_others: int, rest_s: float, left_s: float
) -> None:
    share = compute_reading_share(n_others, rest_s, left_s)
    assert 0.05 <= share <= 1
    assert share == 1 or rest_s / share <= left_s / 2 * (1 + 1e-9)
    assert n_others or share == 1


@given(st.lists(st.floats(0.001, 1), min_size=20, max_size=60), st.floats(0.1, 1))
def test_turns_divide_the_time_by_the_share(pieces: list[float], share: float) -> None:
    shared, read_s, others_s = ReadingTurns(), 0.0, 0.0
    for seconds in pieces:
        if shared.is_due:
            shared.record_chunk(seconds, share)
            read_s += seconds
        else:
            shared.record_others(seconds)
            others_s += seconds
    assert abs(others_s - read_s * (1 - share) / share) <= max(pieces) * max((1 - share) / share, 1)
