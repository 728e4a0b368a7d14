"""The rest of a prompt is read in its first round, in one forward with the drafts of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from decoding.attention.runner import ModelRunner
from decoding.engine import Engine
from decoding.request import Completion, Request, SamplingParams

MakeEngine = Callable[..., Engine]
LONG = "x = 1\n" * 25  # 150 tokens: two pieces of 64, and 21 before the one that the first round begins with


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The tokens of each row, of every forward of a model."""
    seen: list[list[int]] = []
    forward = ModelRunner.forward

    def noted(runner: ModelRunner, tokens: Sequence[Sequence[int]], **options: Any) -> Any:
        seen.append([len(row) for row in tokens])
        return forward(runner, tokens, **options)

    monkeypatch.setattr(ModelRunner, "forward", noted)
    return seen


def asked(prompt: str, **changes: Any) -> Request:
    return Request(prompt, sampling=SamplingParams(0.8), **{"n": 3, "max_new_tokens": 6, **changes})


def test_a_request_alone_reads_the_rest_of_its_prompt_in_its_first_round(
    engine: MakeEngine, forwards: list[list[int]]
) -> None:
    made = engine(drafter="none", draft_length="fixed:0")
    assert made.costs.round_cost(1, 1, 1)  # measured here
    forwards.clear()
    made.generate(asked(LONG))
    assert forwards[:3] == [[64], [64], [22]]
    assert all(max(rows) == 1 for rows in forwards[3:])


def test_a_newcomer_s_prompt_is_read_beside_the_others_tokens(engine: MakeEngine, forwards: list[list[int]]) -> None:
    made = engine(drafter="none", draft_length="fixed:0")
    assert made.costs.round_cost(1, 1, 1)  # measured here
    forwards.clear()

    def arriving() -> Iterator[Request | None]:
        yield asked("def f():", n=1)
        yield from (None, None)  # it is asked once more when the first has joined
        yield asked("y = 23\n" * 3, n=1)

    outcomes = dict(made.serve(arriving()))
    assert all(isinstance(outcome, Completion) for outcome in outcomes.values())
    assert forwards[:2] == [[8], [1, 21]]


@pytest.mark.parametrize("drafter", ["sibling", "./draft", "sibling+trained"])
def test_a_request_alone_reads_its_prompt_in_the_same_shape_whatever_was_learnt(
    drafter: str, engine: MakeEngine, forwards: list[list[int]]
) -> None:
    made = engine(drafter=drafter, draft_length="bass")
    shapes = []
    for _ in range(4):
        forwards.clear()
        made.generate(asked(LONG))
        shapes.append(max(rows[0] for rows in forwards if rows[0] not in (64, 149, 150)))
    assert set(shapes) == {22}


def test_what_is_cached_is_not_read_again(engine: MakeEngine, forwards: list[list[int]]) -> None:
    made = engine(drafter="none", draft_length="fixed:0")
    for _ in range(2):
        forwards.clear()
        again = made.generate(asked(LONG, prefix_cache=True))
    assert again.cached_tokens == 128
    assert forwards[0] == [22]


def test_where_samples_need_rows_of_their_own_the_prompt_is_read_before(
    engine: MakeEngine, forwards: list[list[int]]
) -> None:
    made = engine(drafter="./draft", draft_length="fixed:2", acceptance="maximal")
    forwards.clear()
    made.generate(asked(LONG, n=2))
    target_and_draft = sorted(rows[0] for rows in forwards[:6])
    assert target_and_draft == [21, 21, 64, 64, 64, 64]


def test_a_request_that_gets_its_places_one_by_one_copies_what_was_read(engine: MakeEngine) -> None:
    alone = engine(drafter="none").generate(asked(LONG, n=5))
    crowded = engine(drafter="none", max_batch=2).generate(asked(LONG, n=5))
    assert [s.token_ids for s in crowded.samples] == [s.token_ids for s in alone.samples]
