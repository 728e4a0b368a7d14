"""Arms take their turns in an order that favours neither a place nor a predecessor, and that never changes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from evaluation.studies.order import compute_task_positions, order_arms

ARMS = st.integers(1, 12)
SEEDS = st.integers(0, 2**63)


def square(n_arms: int, number: int, seed: int) -> list[tuple[int, ...]]:
    rows = n_arms if n_arms % 2 == 0 else 2 * n_arms
    return [order_arms(n_arms, number * rows + row, seed) for row in range(rows)]


@given(ARMS, st.integers(0, 10_000), SEEDS)
def test_every_arm_has_one_turn_in_each_block(n_arms: int, block: int, seed: int) -> None:
    assert sorted(order_arms(n_arms, block, seed)) == list(range(n_arms))


@given(ARMS, st.integers(0, 20), SEEDS)
def test_over_a_square_each_arm_stands_in_each_place_equally_often(n_arms: int, number: int, seed: int) -> None:
    places = Counter((arm, place) for row in square(n_arms, number, seed) for place, arm in enumerate(row))
    assert set(places.values()) == {1 if n_arms % 2 == 0 else 2}
    assert len(places) == n_arms**2


@given(ARMS, st.integers(0, 20), SEEDS)
def test_over_a_square_each_arm_follows_each_other_equally_often(n_arms: int, number: int, seed: int) -> None:
    follows = Counter(pair for row in square(n_arms, number, seed) for pair in pairwise(row))
    assert len(follows) == n_arms * (n_arms - 1)
    assert set(follows.values()) <= {1 if n_arms % 2 == 0 else 2}


def test_the_seed_and_the_square_change_the_order() -> None:
    assert len({tuple(square(5, 0, seed)) for seed in range(20)}) == 20
    assert len({tuple(square(5, number, 1)) for number in range(20)}) == 20


def test_a_study_resumed_under_another_version_keeps_its_order() -> None:
    assert [order_arms(4, block, seed=7) for block in range(4)] == [
        (3, 2, 0, 1),
        (1, 0, 2, 3),
        (2, 1, 3, 0),
        (0, 3, 1, 2),
    ]
    three = [(1, 2, 0), (0, 2, 1), (2, 0, 1), (1, 0, 2), (0, 1, 2), (2, 1, 0)]
    assert [order_arms(3, block, seed=0) for block in range(6)] == three


@given(st.integers(0, 200), SEEDS)
def test_every_task_has_a_place_of_its_own(n_tasks: int, seed: int) -> None:
    assert sorted(compute_task_positions(n_tasks, seed)) == list(range(n_tasks))


def test_the_seed_mixes_the_tasks_and_keeps_their_order_for_good() -> None:
    assert len({compute_task_positions(50, seed) for seed in range(20)}) == 20
    assert compute_task_positions(6, seed=7) == (3, 5, 4, 0, 1, 2)
