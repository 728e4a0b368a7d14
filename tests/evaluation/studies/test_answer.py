"""The answer names the leader, whom it cannot tell from it, and nobody while nothing has passed."""

from __future__ import annotations

import pytest

from evaluation import inference
from evaluation.metrics import wilson
from evaluation.studies.answer import answers, named_budgets, sentence
from evaluation.studies.arms import Arm, Scored, score
from tests.evaluation.studies.making import arm, passing


def fast_and_good(tasks: int = 100) -> list[Arm]:
    """One arm that solves 30 % after 1 s, one that solves 60 % after 4 s."""
    return [passing("fast", 30 * tasks // 100, tasks, 1.0), passing("good", 60 * tasks // 100, tasks, 4.0)]


def said(scored: Scored) -> str:
    return sentence(answers(scored), len(scored.task_ids))


def test_an_answer_names_the_leader_with_its_figures() -> None:
    early, late = answers(score(fast_and_good(), [2.0, 8.0]))
    assert (early.arm, early.pass_first, early.interval) == ("fast", 0.3, wilson(30, 100))
    assert (late.arm, late.pass_first, late.equally_good) == ("good", 0.6, ())


def test_pass_all_is_that_of_the_named_arm() -> None:
    unlucky = arm("unlucky", [[(1.0, False), (1.0, True)]] * 3)
    named = arm("named", [[(1.0, True), (1.0, False)]] + [[(1.0, False)]] * 2, n=2)
    (answer,) = answers(score([unlucky, named], [2.0]))
    assert (answer.arm, answer.pass_first, answer.pass_all) == ("named", pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_before_any_chosen_sample_passes_there_is_no_answer() -> None:
    early, late = answers(score(fast_and_good(), [0.5, 2.0]))
    assert (early.arm, early.pass_first, early.equally_good, early.tasks_to_settle) == (None, 0.0, (), None)
    assert late.arm == "fast"
    not_chosen = arm("a", [[(1.0, False), (1.0, True)]])
    (answer,) = answers(score([not_chosen], [2.0]))
    assert (answer.arm, answer.pass_all) == (None, 1.0)


def test_one_second_more_is_what_the_same_arm_gains_up_to_the_budget() -> None:
    steps = arm("a", [[(1.5, True)], [(2.5, True)], [(9.0, True)], [(None, False)]])
    found = answers(score([steps], [1.9, 2.0, 4.0]))
    assert [answer.one_second_more for answer in found] == [0.25, 0.25, None]


def test_tasks_to_settle_is_the_number_at_which_the_difference_would_be_detected() -> None:
    (answer,) = answers(score([passing("a", 50, 82), passing("b", 46, 82)], [2.0]))
    assert (answer.arm, answer.equally_good) == ("a", ("b",))
    assert answer.tasks_to_settle == inference.tasks_to_detect(4 / 82, 4 / 82) > 82
    assert inference.detectable(answer.tasks_to_settle, 4 / 82) <= 4 / 82 * 1.0001


def test_it_is_settled_against_the_best_of_those_equally_good() -> None:
    (answer,) = answers(score([passing("a", 50, 82), passing("b", 46, 82, cost_s=0.1), passing("c", 49, 82)], [2.0]))
    assert answer.equally_good == ("b", "c")
    assert answer.tasks_to_settle == inference.tasks_to_detect(1 / 82, 1 / 82)


def test_no_number_of_tasks_settles_a_tie_or_a_difference_that_is_too_small() -> None:
    (tie,) = answers(score([passing("a", 5, 9), passing("b", 5, 9)], [2.0]))
    assert (tie.equally_good, tie.tasks_to_settle) == (("b",), None)
    half = [[(1.0, task % 2 == 0)] for task in range(400)]
    other_half = [[(1.0, task % 2 == 1 or task == 0)] for task in range(400)]
    (hardly,) = answers(score([arm("a", half), arm("b", other_half)], [2.0]))
    assert (hardly.arm, hardly.equally_good, hardly.tasks_to_settle) == ("b", ("a",), None)


def test_a_study_answers_at_the_budgets_that_people_name_and_at_its_own() -> None:
    assert named_budgets(14.0) == (1.0, 2.0, 3.0, 5.0, 10.0, 14.0)
    assert named_budgets(5.0) == (1.0, 2.0, 3.0, 5.0)
    assert named_budgets(0.7) == (0.7,)


def test_an_answer_between_two_budgets_is_neither_of_theirs() -> None:
    """The figures of the end of an interval would be 60 % at every budget from 2 s on."""
    steps = arm("a", [[(2.0, True)]] * 2 + [[(6.5, True)]] * 4 + [[(7.1, True)]] * 2 + [[(None, False)]] * 2)
    study = score([steps], [0.5, 6.0, 8.0])
    found = answers(study, (1.99, 2.0, 6.49, 6.5, 7.0, 7.1, 7.2))
    assert [answer.pass_first for answer in found] == [0.0, 0.2, 0.2, 0.6, 0.6, 0.8, 0.8]
    assert [answer.budget_s for answer in found] == [1.99, 2.0, 6.49, 6.5, 7.0, 7.1, 7.2]
    assert found[0].arm is None
    assert found[3].one_second_more == pytest.approx(0.2), (
        "up to the study's budget, which is not among those asked for"
    )


def test_the_sentence_names_the_budget_of_each_answer() -> None:
    assert said(score(fast_and_good(), [2.0, 8.0])) == (
        "At 2 s: fast: Pass@First 30 % (22 to 40). At 8 s: good: Pass@First 60 % (50 to 69)."
    )


def test_the_sentence_names_those_not_distinguishable_and_what_would_settle_it() -> None:
    arms = [passing("a", 50, 82), passing("b, n = 1", 46, 82), passing("c, n = 4", 46, 82)]
    assert said(score(arms, [2.0, 3.0])) == (
        "At 2 s: a: Pass@First 61 % (50 to 71), 2 others not distinguishable. At 3 s: a: Pass@First 61 % (50 to 71). "
        "On these 82 tasks it is not distinguishable there from: b, n = 1; c, n = 4. About 160 tasks would settle it."
    )


def test_the_sentence_says_where_nothing_passes() -> None:
    assert said(score(fast_and_good(), [0.3, 2.0])) == (
        "At 0.3 s no chosen sample passes. At 2 s: fast: Pass@First 30 % (22 to 40)."
    )
    assert said(score([passing("a", 0, 5), passing("b", 0, 5)], [1.0, 12.5])) == (
        "No chosen sample passed within 12.5 s: there is no configuration to name."
    )


def test_the_sentence_says_where_the_choice_becomes_wrong_again() -> None:
    """A later sample with a higher mean log-probability is chosen, and fails."""
    again = arm("a", [[(4.0, False), (1.0, True)], [(9.0, True), (9.0, True)]])
    assert said(score([again], [2.0, 4.0, 9.0])) == (
        "At 2 s: a: Pass@First 50 % (9 to 91). At 4 s no chosen sample passes. At 9 s: a: Pass@First 50 % (9 to 91)."
    )


def test_one_task_and_one_arm_are_enough_for_a_sentence() -> None:
    assert said(score([passing("a", 1, 1)], [2.0])) == "At 2 s: a: Pass@First 100 % (21 to 100)."


def test_identical_arms_are_equally_good_and_never_settled() -> None:
    twins = [passing("a", 3, 9, cost_s=2.0), passing("b", 3, 9, cost_s=1.0)]
    for answer in answers(score(twins, [2.0, 4.0])):
        assert (answer.arm, answer.equally_good, answer.tasks_to_settle) == ("b", ("a",), None)
