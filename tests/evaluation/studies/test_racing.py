"""Racing may look after every block of tasks, and still errs in fewer than 5 % of the studies."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from evaluation.studies import racing
from evaluation.studies.racing import Drop, compute_e_value, list_budgets_of_interest
from tests.evaluation.studies.making import MadeArm, arm, coin, passing, score

COUNTS = st.integers(0, 60)


@given(COUNTS, COUNTS)
def test_the_e_value_is_the_mixture_of_likelihood_ratios(wins: int, losses: int) -> None:
    def ratio(p: float) -> float:
        return (2 * p) ** wins * (2 * (1 - p)) ** losses

    mixture, _ = integrate.quad(ratio, 0.5, 1.0, epsabs=0, epsrel=1e-9, limit=200)
    assert compute_e_value(wins, losses) == pytest.approx(2 * mixture, rel=1e-6)


@given(COUNTS, COUNTS)
def test_one_more_task_changes_the_e_value_by_nothing_in_expectation(wins: int, losses: int) -> None:
    """Where a win has probability 1/2, the e-value is a martingale: this is what allows to look at any time."""
    after = (compute_e_value(wins + 1, losses) + compute_e_value(wins, losses + 1)) / 2
    assert after == pytest.approx(compute_e_value(wins, losses), rel=1e-9)
    assert compute_e_value(wins + 1, losses) > compute_e_value(wins, losses + 1)


def test_e_values_of_extreme_counts_are_numbers() -> None:
    assert compute_e_value(0, 0) == 1.0
    assert compute_e_value(0, 5000) == pytest.approx(0.0, abs=1e-3)
    assert math.isfinite(compute_e_value(5000, 0))


@pytest.mark.parametrize(
    ("budget", "expected"),
    [(10.0, (2.5, 5.0, 10.0)), (60.0, (15.0, 30.0, 60.0)), (3.0, (1.5, 3.0)), (0.5, (0.5,)), (1.0, (1.0,))],
)
def test_budgets_of_interest_are_halves_down_to_a_second(budget: float, expected: tuple[float, ...]) -> None:
    assert list_budgets_of_interest(budget) == expected


def test_looking_after_every_block_drops_equal_arms_in_fewer_than_one_study_in_twenty() -> None:
    arms, tasks, studies = 4, 164, 2000
    threshold = arms * (arms - 1) / racing.ALPHA
    known = functools.cache(compute_e_value)
    rng = np.random.default_rng(5)
    errors = 0
    for _ in range(studies):
        passed = rng.random((arms, tasks)) < rng.random(tasks) ** 0.7  # tasks differ in difficulty
        worst = 0.0
        for a in range(arms):
            for b in range(arms):
                wins, losses = (passed[a] & ~passed[b]).cumsum(), (passed[b] & ~passed[a]).cumsum()
                worst = max(worst, *(known(int(w), int(lost)) for w, lost in set(zip(wins, losses, strict=True))))
        errors += worst >= threshold
    assert errors / studies < 0.05


def dropped(arms: list[MadeArm], started: int, budgets: tuple[float, ...]) -> tuple[Drop, ...]:
    return racing.find_dropped(score(arms, budgets[-1]), started, budgets)


def study(shares: list[float], tasks: int, seed: int = 1) -> list[MadeArm]:
    rng = np.random.default_rng(seed)
    return [arm(f"{place}", coin(rng, tasks, share)) for place, share in enumerate(shares)]


def test_a_clear_loser_is_dropped_early_and_the_close_ones_stay() -> None:
    (drop,) = dropped(study([0.6, 0.6, 0.05], 40), 3, (2.0, 4.0))
    assert (drop.arm, drop.n_tasks) == ("2", 40)
    assert drop.by in {"0", "1"}
    assert drop.e_value >= 3 * 2 / racing.ALPHA


def test_equal_arms_stay() -> None:
    assert dropped(study([0.5, 0.5, 0.5], 164), 3, (2.0,)) == ()
    twins = [passing("a", 50, 100), passing("b", 50, 100)]
    assert dropped(twins, 2, (2.0,)) == ()


def test_an_arm_that_is_worse_at_the_long_budgets_only_stays() -> None:
    quick, good = passing("quick", 20, 100, 1.0), passing("good", 90, 100, 3.0)
    as_quick = arm("as quick", [[(1.0 if task < 20 else 3.0, task < 90)] for task in range(100)])
    for better in (good, as_quick):
        assert dropped([quick, better], 2, (2.0, 4.0)) == ()
        assert [drop.arm for drop in dropped([quick, better], 2, (4.0,))] == ["quick"]


def test_budgets_at_which_neither_has_solved_anything_do_not_count() -> None:
    (drop,) = dropped([passing("a", 5, 100, 3.0), passing("b", 90, 100, 3.0)], 2, (2.0, 4.0))
    assert (drop.arm, drop.by) == ("a", "b")


def test_an_arm_that_leads_in_pass_all_stays() -> None:
    lucky = arm("all", [[(1.0, False), (1.0, True)]] * 60)
    chooses = arm("first", [[(1.0, True), (1.0, False)]] * 50 + [[(1.0, False)] * 2] * 10)
    assert dropped([lucky, chooses], 2, (2.0,)) == ()


def test_the_number_of_arms_at_the_start_sets_the_threshold() -> None:
    pair = [passing("a", 0, 9), passing("b", 9, 9)]  # e-value 2**10 / 10 = 102
    assert [drop.arm for drop in dropped(pair, 2, (2.0,))] == ["a"]
    assert dropped(pair, 4, (2.0,)) == ()


def test_studies_with_nothing_to_compare_drop_nothing() -> None:
    assert dropped([passing("a", 1, 1)], 1, (2.0,)) == ()
    assert dropped([passing("a", 0, 50), passing("b", 0, 50)], 2, (2.0,)) == ()
