"""The answer names the leader, whom it cannot tell from it, and nobody while nothing has passed."""

from __future__ import annotations

import pytest

from evaluation import inference
from evaluation.metrics import wilson
from evaluation.studies.answer import answers, segments, sentence
from evaluation.studies.arms import Arm, Scored, score
from tests.evaluation.studies.making import arm, passing


def fast_and_good(tasks: int = 100) -> list[Arm]:
    """One arm that solves 30 % after 1 s, one that solves 60 % after 4 s."""
    return [passing("fast", 30 * tasks // 100, tasks, 1.0), passing("good", 60 * tasks // 100, tasks, 4.0)]


def said(scored: Scored) -> str:
    return sentence(scored, segments(scored))


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


def test_segments_join_the_budgets_of_one_arm() -> None:
    first, second = segments(score(fast_and_good(), [1.0, 2.0, 3.0, 4.0, 8.0]))
    assert (first.arm, first.from_s, first.to_s, first.pass_first) == ("fast", 1.0, 4.0, 0.3)
    assert (second.arm, second.from_s, second.to_s, second.pass_first) == ("good", 4.0, 8.0, 0.6)


def overtaken(by: int) -> list[Arm]:
    """Both solve the same ten tasks after 1 s; the second solves more after 2 s."""
    later = [[(1.0, True)]] * 10 + [[(2.0, True)]] * by + [[(1.0, False)]] * (10 - by)
    return [passing("a", 10, 20, 1.0), arm("b", later)]


def test_a_narrow_lead_of_one_task_is_no_segment() -> None:
    scored = score(overtaken(by=1), [1.0, 1.5, 2.0, 2.2])
    assert [answer.arm for answer in answers(scored)] == ["a", "a", "b", "b"]
    (segment,) = segments(scored)
    assert (segment.arm, segment.from_s, segment.to_s, segment.pass_first) == ("a", 1.0, 2.2, 0.5)


def test_a_wide_lead_or_one_of_two_tasks_is_a_segment() -> None:
    wide = score(overtaken(by=1), [1.0, 2.0, 9.0])
    high = score(overtaken(by=2), [1.0, 1.5, 2.0, 2.2])
    for scored in (wide, high):
        assert [segment.arm for segment in segments(scored)] == ["a", "b"]


def test_arms_are_equally_good_in_a_segment_if_they_are_so_where_its_figures_stand() -> None:
    a = passing("a", 30, 60, 1.0)
    slow = passing("slow", 30, 60, 4.0)
    quick = passing("quick", 29, 60, 1.0)
    (segment,) = segments(score([a, slow, quick], [1.0, 2.0, 4.0]))
    assert set(segment.equally_good) == {"quick", "slow"}, "slow has as many at 4 s, though none at 2 s"
    (before,) = segments(score([a, slow, quick], [1.0, 2.0]))
    assert before.equally_good == ("quick",)


def test_the_sentence_says_what_the_segments_say() -> None:
    assert said(score(fast_and_good(), [1.0, 2.0, 4.0, 8.0])) == (
        "Up to 4 s: fast: Pass@First 30 % (22 to 40). From 4 s: good: Pass@First 60 % (50 to 69)."
    )


def test_the_sentence_names_those_equally_good_and_what_would_settle_it() -> None:
    arms = [passing("a", 50, 82), passing("b, n = 1", 46, 82), passing("c, n = 4", 46, 82)]
    assert said(score(arms, [2.0, 3.0])) == (
        "Up to 3 s: a: Pass@First 61 % (50 to 71). "
        "Equally good by then as far as 82 tasks can tell: b, n = 1; c, n = 4. About 160 tasks would settle it."
    )


def test_the_sentence_says_where_nothing_passes() -> None:
    assert said(score(fast_and_good(), [0.3, 0.5, 1.0, 2.0])) == (
        "Up to 1 s: no chosen sample passes. From 1 s: fast: Pass@First 30 % (22 to 40)."
    )
    assert said(score([passing("a", 0, 5), passing("b", 0, 5)], [1.0, 12.5])) == (
        "No chosen sample passed within 12 s: there is no configuration to name."
    )


def test_the_sentence_says_where_the_choice_becomes_wrong_again() -> None:
    """A later sample with a higher mean log-probability is chosen, and fails."""
    again = arm("a", [[(4.0, False), (1.0, True)]])
    assert said(score([again], [1.0, 2.0, 4.0, 8.0])) == (
        "Up to 4 s: a: Pass@First 100 % (21 to 100). From 4 s: no chosen sample passes."
    )


def test_one_task_and_one_arm_are_enough_for_a_sentence() -> None:
    assert said(score([passing("a", 1, 1)], [2.0])) == "Up to 2 s: a: Pass@First 100 % (21 to 100)."


def test_identical_arms_are_equally_good_and_never_settled() -> None:
    twins = [passing("a", 3, 9, cost_s=2.0), passing("b", 3, 9, cost_s=1.0)]
    (segment,) = segments(score(twins, [2.0, 4.0]))
    assert (segment.arm, segment.equally_good, segment.tasks_to_settle) == ("b", ("a",), None)
