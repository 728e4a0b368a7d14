"""The answer names the best arm, or a cheaper one that is shown to be as good, and nobody while nothing has passed."""

from __future__ import annotations

import pytest

from evaluation.decisions import MARGIN
from evaluation.metrics import MetricError, compute_wilson_interval
from evaluation.studies.answer import BudgetAnswer, answer_at, list_named_budgets
from tests.evaluation.studies.making import MadeArm, arm, passing, score


def answers(arms: list[MadeArm], budgets: list[float], margin: float = MARGIN) -> list[BudgetAnswer]:
    """The answers at these budgets, of which the last is the study's."""
    compared = score(arms, budgets[-1])
    return [answer_at(compared, budget, margin) for budget in budgets]


def fast_and_good(tasks: int = 100) -> list[MadeArm]:
    """One arm that solves 30 % after 1 s, one that solves 60 % after 4 s."""
    return [passing("fast", 30 * tasks // 100, tasks, 1.0), passing("good", 60 * tasks // 100, tasks, 4.0)]


def test_an_answer_names_the_leader_with_its_figures() -> None:
    early, late = answers(fast_and_good(), [2.0, 8.0])
    assert (early.arm, early.pass_first, early.interval) == ("fast", 0.3, compute_wilson_interval(30, 100))
    assert (late.arm, late.pass_first, late.use, late.verdict, late.against) == ("good", 0.6, "good", "better", "fast")


def test_pass_all_is_that_of_the_named_arm() -> None:
    unlucky = arm("unlucky", [[(1.0, False), (1.0, True)]] * 3)
    named = arm("named", [[(1.0, True), (1.0, False)]] + [[(1.0, False)]] * 2, n=2)
    (answer,) = answers([unlucky, named], [2.0])
    assert (answer.arm, answer.pass_first, answer.pass_all) == ("named", pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_before_any_chosen_sample_passes_there_is_no_answer() -> None:
    early, late = answers(fast_and_good(), [0.5, 2.0])
    assert (early.arm, early.pass_first, early.use, early.verdict, early.tasks_to_decide) == (
        None,
        0.0,
        None,
        None,
        None,
    )
    assert late.arm == "fast"
    not_chosen = arm("a", [[(1.0, False), (1.0, True)]])
    (answer,) = answers([not_chosen], [2.0])
    assert (answer.arm, answer.pass_all) == (None, 1.0)


def test_one_second_more_is_what_the_same_arm_gains_up_to_the_budget() -> None:
    steps = arm("a", [[(1.5, True)], [(2.5, True)], [(9.0, True)], [(None, False)]])
    found = answers([steps], [1.9, 2.0, 4.0])
    assert [answer.one_second_more for answer in found] == [0.25, 0.25, None]


def test_absence_of_significance_is_not_equivalence() -> None:
    """One arm solves 5 of 10 tasks and a cheaper one 1: McNemar's p is 0.125, and the cheaper one must not be used."""
    (answer,) = answers([passing("good", 5, 10, cost_s=2.0), passing("cheap", 1, 10, cost_s=0.5)], [2.0])
    assert (answer.use, answer.verdict, answer.against) == ("good", "undecided", "cheap")
    (cheap,) = answer.cheaper
    assert (cheap.arm, cheap.verdict) == ("cheap", "undecided")
    assert cheap.worse_by_at_most > 0.4


def test_a_cheaper_arm_that_is_shown_to_be_as_good_is_used() -> None:
    (answer,) = answers([passing("dear", 90, 164, cost_s=2.0), passing("cheap", 89, 164, cost_s=1.0)], [2.0])
    assert (answer.arm, answer.use, answer.verdict, answer.against) == ("dear", "cheap", "as_good", "dear")
    assert (answer.use_pass_first, answer.pass_first) == (89 / 164, 90 / 164)
    assert answer.as_good == ("dear",)
    assert answer.tasks_to_decide is None


def test_a_dearer_arm_that_is_as_good_is_not_used() -> None:
    (answer,) = answers([passing("cheap", 90, 164, cost_s=1.0), passing("dear", 89, 164, cost_s=2.0)], [2.0])
    assert (answer.use, answer.verdict, answer.as_good, answer.cheaper) == ("cheap", "as_good", ("dear",), ())


def test_a_larger_margin_lets_a_worse_arm_be_as_good() -> None:
    arms = [passing("dear", 90, 164, cost_s=2.0), passing("cheap", 84, 164, cost_s=1.0)]
    assert answers(arms, [2.0])[0].use == "dear"
    (wide,) = answers(arms, [2.0], margin=0.15)
    assert (wide.use, wide.verdict, wide.margin) == ("cheap", "as_good", 0.15)


def test_an_arm_as_good_as_the_best_is_undecided_while_the_best_itself_is() -> None:
    rivals = [[(1.0, task < 85 or task >= 160)] for task in range(164)]
    arms = [
        passing("best", 90, 164, cost_s=3.0),
        passing("cheap", 90, 164, cost_s=1.0),
        arm("other", rivals, cost_s=5.0),
    ]
    (answer,) = answers(arms, [2.0])
    assert (answer.use, answer.verdict, answer.against) == ("cheap", "undecided", "other")


def test_few_tasks_without_any_difference_show_nothing() -> None:
    """A bootstrap over tasks of which none differs has no width."""
    (few,) = answers([passing("a", 5, 10), passing("b", 5, 10)], [2.0])
    assert few.verdict == "undecided"
    assert few.difference == 0.0
    assert few.difference_interval[0] < -0.2


def test_tasks_to_decide_follow_from_the_margin_not_from_the_observed_difference() -> None:
    """Two studies with equally many tasks that differ, in one of which they all favour the same arm."""
    one_sided = [passing("a", 50, 82), passing("b", 46, 82)]
    both = [[(1.0, task < 48 or 50 <= task < 52)] for task in range(82)]
    two_sided = [passing("a", 50, 82), arm("b", both)]
    needed = [answers(arms, [2.0])[0].tasks_to_decide for arms in (one_sided, two_sided)]
    assert needed[0] == needed[1] > 82
    assert answers(one_sided, [2.0], margin=0.1)[0].tasks_to_decide < needed[0]


def test_an_answer_past_the_last_budget_is_refused() -> None:
    with pytest.raises(MetricError, match="measured to 8 s"):
        answer_at(score(fast_and_good(), 8.0), 20.0)


def test_a_study_answers_at_the_budgets_that_people_name_and_at_its_own() -> None:
    assert list_named_budgets(14.0) == (1.0, 2.0, 3.0, 5.0, 10.0, 14.0)
    assert list_named_budgets(5.0) == (1.0, 2.0, 3.0, 5.0)
    assert list_named_budgets(0.7) == (0.7,)


def test_an_answer_between_two_budgets_is_neither_of_theirs() -> None:
    """The figures of the end of an interval would be 60 % at every budget from 2 s on."""
    steps = arm("a", [[(2.0, True)]] * 2 + [[(6.5, True)]] * 4 + [[(7.1, True)]] * 2 + [[(None, False)]] * 2)
    study = score([steps], 8.0)
    found = [answer_at(study, budget) for budget in (1.99, 2.0, 6.49, 6.5, 7.0, 7.1, 7.2)]
    assert [answer.pass_first for answer in found] == [0.0, 0.2, 0.2, 0.6, 0.6, 0.8, 0.8]
    assert [answer.budget_s for answer in found] == [1.99, 2.0, 6.49, 6.5, 7.0, 7.1, 7.2]
    assert found[0].arm is None
    assert found[3].one_second_more == pytest.approx(0.2), (
        "up to the study's budget, which is not among those asked for"
    )


def test_one_arm_has_no_verdict() -> None:
    (answer,) = answers([passing("a", 1, 1)], [2.0])
    assert (answer.use, answer.verdict, answer.against, answer.difference) == ("a", None, None, None)


def test_of_identical_arms_the_cheapest_is_named_and_a_few_tasks_do_not_call_it_as_good() -> None:
    twins = [passing("a", 3, 9, cost_s=2.0), passing("b", 3, 9, cost_s=1.0)]
    for answer in answers(twins, [2.0, 4.0]):
        assert (answer.arm, answer.use, answer.verdict, answer.undecided) == ("b", "b", "undecided", ("a",))
