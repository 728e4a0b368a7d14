"""The whole analysis: consistent in itself, and honest for studies in which little has happened."""

from __future__ import annotations

import random

import numpy as np
import pytest

from evaluation.metrics import BUDGET_GRID, MetricError, compute_wilson_interval
from evaluation.outcomes import compute_pass_all, compute_pass_first
from evaluation.studies.analysis import Analysis, ShareReached, analyse, list_study_budgets
from tests.evaluation.studies.making import MadeArm, Sample, arm, passing, score


def drawn(n: int, ms_per_token: float, tasks: int, seed: int) -> list[list[Sample]]:
    """Samples of tasks of different length and difficulty; those past 10 s did not finish."""
    rng = np.random.default_rng(seed)
    found: list[list[Sample]] = []
    for task in range(tasks):
        times = rng.uniform(0.5, 1.5, n) * (40 + 2 * task) * ms_per_token / 1000
        passes = rng.random(n) < 0.8 - 0.6 * task / tasks
        found.append([(float(t), bool(p)) if t < 10 else (None, False) for t, p in zip(times, passes, strict=True)])
    return found


@pytest.fixture(scope="module")
def paper() -> list[MadeArm]:
    def one(name: str, n: int, speed: float, speculative: bool) -> MadeArm:
        family, pair = f"speculative {speculative}", f"n = {n}"
        return arm(
            name, drawn(n, speed, 40, n), speculative=speculative, family=family, drafting_family=pair, cost_s=speed * n
        )

    return [
        one("plain, n = 1", 1, 30, False),
        one("plain, n = 8", 8, 90, False),
        one("sibling, n = 1", 1, 20, True),
        one("sibling, n = 8", 8, 35, True),
    ]


@pytest.fixture(scope="module")
def analysis(paper: list[MadeArm]) -> Analysis:
    return analyse(score(paper, 10.0))


def test_budgets_are_the_grid_up_to_that_of_the_study() -> None:
    assert list_study_budgets(10.0) == tuple(budget for budget in BUDGET_GRID if budget <= 10.0)
    assert list_study_budgets(7.0)[-2:] == (max(b for b in BUDGET_GRID if b < 7.0), 7.0)
    assert list_study_budgets(0.05) == (0.05,)


def test_the_curve_of_each_arm_is_the_definition_at_every_budget(paper: list[MadeArm], analysis: Analysis) -> None:
    dice = random.Random(1)
    for each, of_arm in zip(paper, analysis.curves, strict=True):
        for budget in (*analysis.budgets, *(dice.uniform(0.1, 10.0) for _ in range(50))):
            (first, interval), (every, _) = of_arm.get_shares_at(budget)
            assert (first, every) == (
                compute_pass_first(each.outcomes, budget),
                compute_pass_all(each.outcomes, budget),
            )
            assert interval == compute_wilson_interval(round(first * 40), 40)


def test_the_parts_say_the_same_at_every_budget_that_one_asks_for(analysis: Analysis) -> None:
    assert [answer.budget_s for answer in analysis.answers] == [1.0, 2.0, 3.0, 5.0, 10.0]
    for answer in analysis.answers:
        assert answer == analysis.answer_at(answer.budget_s)
    between = analysis.answer_at(2.345)
    own = next(one for one in analysis.curves if one.arm == between.arm)
    assert own.get_shares_at(2.345)[0] == (between.pass_first, between.interval)
    cells = {
        name: row[family.budgets.index(2.345)].pass_first
        for family in analysis.list_samples(2.345)
        for name, row in zip(family.arms, family.rows, strict=True)
    }
    assert cells == {one.arm: one.get_shares_at(2.345)[0][0] for one in analysis.curves}


def test_there_is_a_row_for_each_arm_a_family_for_each_drafter_and_a_pair_for_each_n(analysis: Analysis) -> None:
    assert len(analysis.paper_table) == 4
    assert [family.ns for family in analysis.samples] == [(1, 8), (1, 8)]
    assert analysis.samples[0].budgets == (1.0, 2.0, 3.0, 5.0, 10.0)
    assert [(s.plain, s.speculative) for s in analysis.speculation] == [
        ("plain, n = 1", "sibling, n = 1"),
        ("plain, n = 8", "sibling, n = 8"),
    ]


NOT_FINISHED: list[list[Sample]] = [[(None, False)] * 2] * 3

TINY = {
    "one task": [passing("a", 1, 1), passing("b", 0, 1, speculative=True)],
    "one arm": [passing("a", 3, 9)],
    "identical arms": [
        passing("a", 3, 9, family="f", drafting_family="p"),
        passing("b", 3, 9, drafting_family="p", speculative=True),
    ],
    "no pass": [passing("a", 0, 9, n=1, family="f"), passing("b", 0, 9, n=2, family="f")],
    "nothing finished": [
        arm("a", NOT_FINISHED, n=1, drafting_family="p", family="f"),
        arm("b", NOT_FINISHED, n=2, drafting_family="p", family="f", speculative=True),
    ],
    "nothing finished in one arm": [
        arm("a", NOT_FINISHED, drafting_family="p"),
        passing("b", 2, 3, drafting_family="p", speculative=True),
    ],
}


@pytest.mark.parametrize("arms", TINY.values(), ids=TINY)
def test_studies_in_which_little_has_happened_claim_nothing(arms: list[MadeArm]) -> None:
    found = analyse(score(arms, 5.0))
    passed = any(outcome.passed for each in arms for outcome in each.outcomes)
    assert (found.answers[-1].arm is not None) == passed
    if len(arms) > 1 and passed:  # too few tasks to tell any two arms apart
        assert {answer.verdict for answer in found.answers if answer.arm} == {"undecided"}


def test_a_study_without_results_or_budget_is_refused_with_the_reason() -> None:
    with pytest.raises(MetricError, match="no runs or no tasks"):
        score([], 5.0)
    for budget in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(MetricError, match="budget of the study"):
            analyse(score([passing("a", 1, 1)], budget))


def test_the_arm_that_reaches_a_share_first_is_named_and_a_share_nobody_reaches_has_none() -> None:
    found = analyse(score([passing("early", 5, 10, 1.25), passing("late", 7, 10, 3.5)], 4.0))
    assert found.reached == (
        ShareReached(0.2, 1.25, "early"),
        ShareReached(0.4, 1.25, "early"),
        ShareReached(0.6, 3.5, "late"),
        ShareReached(0.8, None, None),
    )
    dear, cheap = passing("dear", 5, 10, cost_s=2.0), passing("cheap", 5, 10, cost_s=1.0)
    assert analyse(score([dear, cheap], 2.0)).reached[0].arm == "cheap"
