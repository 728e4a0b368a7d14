"""The whole analysis: consistent in itself, and honest for studies in which little has happened."""

from __future__ import annotations

import random

import numpy as np
import pytest

from evaluation.metrics import BUDGET_GRID, MetricError, pass_all, pass_first, wilson
from evaluation.studies.analysis import Analysis, analyse, distinguishing_budgets, study_budgets
from evaluation.studies.arms import Arm, score
from evaluation.studies.leaders import PairBands
from tests.evaluation.studies.making import Sample, arm, passing


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
def paper() -> list[Arm]:
    def one(name: str, n: int, speed: float, speculative: bool) -> Arm:
        family, pair = f"speculative {speculative}", f"n = {n}"
        return arm(name, drawn(n, speed, 40, n), speculative=speculative, family=family, pair=pair, cost_s=speed * n)

    return [
        one("plain, n = 1", 1, 30, False),
        one("plain, n = 8", 8, 90, False),
        one("sibling, n = 1", 1, 20, True),
        one("sibling, n = 8", 8, 35, True),
    ]


@pytest.fixture(scope="module")
def analysis(paper: list[Arm]) -> Analysis:
    return analyse(paper, 10.0)


def test_budgets_are_the_grid_up_to_that_of_the_study() -> None:
    assert study_budgets(10.0) == tuple(budget for budget in BUDGET_GRID if budget <= 10.0)
    assert study_budgets(7.0)[-2:] == (max(b for b in BUDGET_GRID if b < 7.0), 7.0)
    assert study_budgets(0.05) == (0.05,)


def test_the_curve_of_each_arm_is_the_definition_at_every_budget(paper: list[Arm], analysis: Analysis) -> None:
    dice = random.Random(1)
    for each, of_arm in zip(paper, analysis.curves, strict=True):
        for budget in (*analysis.budgets, *(dice.uniform(0.1, 10.0) for _ in range(50))):
            (first, interval), (every, _) = of_arm.at(budget)
            assert (first, every) == (pass_first(each.outcomes, budget), pass_all(each.outcomes, budget))
            assert interval == wilson(round(first * 40), 40)


def test_the_parts_say_the_same_at_every_budget_that_one_asks_for(analysis: Analysis) -> None:
    assert [answer.budget_s for answer in analysis.answers] == [1.0, 2.0, 3.0, 5.0, 10.0]
    for answer in analysis.answers:
        assert answer == analysis.answer_at(answer.budget_s)
        place = analysis.budgets.index(answer.budget_s)
        assert (answer.arm, answer.pass_first) == (
            analysis.frontier_first.arms[place],
            analysis.frontier_first.values[place],
        )
        assert (answer.verdict != "better") == analysis.frontier_first.too_close[place] or answer.arm is None
    between = analysis.answer_at(2.345)
    own = next(one for one in analysis.curves if one.arm == between.arm)
    assert own.at(2.345)[0] == (between.pass_first, between.interval)
    cells = [row[0] for family in analysis.samples_at((2.345,)) for row in family.rows]
    assert {cell.arm: cell.pass_first for cell in cells} == {one.arm: one.at(2.345)[0][0] for one in analysis.curves}


def test_there_is_a_row_for_each_arm_a_family_for_each_drafter_and_a_pair_for_each_n(analysis: Analysis) -> None:
    assert len(analysis.paper_table) == 4
    assert [family.ns for family in analysis.samples] == [(1, 8), (1, 8)]
    assert len(analysis.many) == 12
    assert set(analysis.samples[0].budgets) <= set(analysis.budgets)
    assert [(s.plain, s.speculative) for s in analysis.speculation] == [
        ("plain, n = 1", "sibling, n = 1"),
        ("plain, n = 8", "sibling, n = 8"),
    ]


def bands_of(arms: list[Arm], budgets: list[float]) -> list[PairBands]:
    scored = score(arms, budgets)
    return [PairBands(scored, "first"), PairBands(scored, "all")]


def test_telling_budgets_run_from_the_first_difference_that_is_told_to_the_last() -> None:
    slow = arm("slow", [[(3.0, True)]] * 9)
    early = arm("early", [[(1.0, True)], *[[(2.0, True)]] * 8])  # one task ahead after 1 s, nine after 2 s
    budgets = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0]
    assert distinguishing_budgets(bands_of([slow, early], budgets), 2) == (2.5, 4.0), (
        "the step that ends at 2 s holds both"
    )
    only_any = arm("early", [[(1.0, False), (2.0, True)]] * 9)
    assert distinguishing_budgets(bands_of([slow, only_any], budgets), 9) == (2.5, 3.0, 4.0)


def test_telling_budgets_of_equal_arms_run_from_the_first_pass() -> None:
    twins = bands_of([passing("a", 5, 9, 2.0), passing("b", 5, 9, 2.0)], [1.0, 2.0, 4.0])
    assert distinguishing_budgets(twins, 4) == (2.0, 4.0)
    assert distinguishing_budgets(bands_of([passing("a", 0, 9)], [1.0, 2.0]), 4) == (2.0,)


NOT_FINISHED: list[list[Sample]] = [[(None, False)] * 2] * 3

TINY = {
    "one task": [passing("a", 1, 1), passing("b", 0, 1, speculative=True)],
    "one arm": [passing("a", 3, 9)],
    "identical arms": [passing("a", 3, 9, family="f", pair="p"), passing("b", 3, 9, pair="p", speculative=True)],
    "no pass": [passing("a", 0, 9, n=1, family="f"), passing("b", 0, 9, n=2, family="f")],
    "nothing finished": [
        arm("a", NOT_FINISHED, n=1, pair="p", family="f"),
        arm("b", NOT_FINISHED, n=2, pair="p", family="f", speculative=True),
    ],
    "nothing finished in one arm": [arm("a", NOT_FINISHED, pair="p"), passing("b", 2, 3, pair="p", speculative=True)],
}


@pytest.mark.parametrize("arms", TINY.values(), ids=TINY)
def test_studies_in_which_little_has_happened_claim_nothing(arms: list[Arm]) -> None:
    found = analyse(arms, 5.0)
    passed = any(outcome.passed for each in arms for outcome in each.outcomes)
    assert (found.answers[-1].arm is not None) == passed
    if len(arms) > 1 and passed:  # too few tasks to tell any two arms apart
        assert {answer.verdict for answer in found.answers if answer.arm} == {"undecided"}


def test_a_study_without_results_or_budget_is_refused_with_the_reason() -> None:
    with pytest.raises(MetricError, match="no arm"):
        analyse([], 5.0)
    for budget in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(MetricError, match="budget of the study"):
            analyse([passing("a", 1, 1)], budget)
