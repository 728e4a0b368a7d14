"""Arms compare over the tasks that all of them have, whatever else one of them has done."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evaluation.metrics import MetricError, pass_all, pass_first
from evaluation.studies.arms import common_tasks, score
from tests.evaluation.studies.making import arm, passing


def test_the_common_tasks_are_in_the_order_of_the_first_arm() -> None:
    a, b = passing("a", 1, 4), passing("b", 1, 3, start=1)
    assert common_tasks([a, b]) == ("T/1", "T/2", "T/3")
    assert common_tasks([a]) == ("T/0", "T/1", "T/2", "T/3")
    assert common_tasks([]) == ()


def test_each_row_is_the_same_task_for_all_arms() -> None:
    a = arm("a", [[(1.0, True)], [(1.0, False)], [(1.0, True)]])
    b = arm("b", [[(1.0, False)], [(1.0, True)]], start=1)
    backwards = arm("c", [[(1.0, True)], [(1.0, False)], [(1.0, True)]])
    backwards = replace(backwards, outcomes=backwards.outcomes[::-1])
    scored = score([a, b, backwards], [2.0])
    assert scored.task_ids == ("T/1", "T/2")
    assert scored.first[:, :, 0].tolist() == [[False, True], [False, True], [False, True]]


def test_the_shares_are_those_of_the_metrics() -> None:
    rng = np.random.default_rng(0)
    tasks = [[(float(rng.uniform(0, 4)), bool(rng.random() < 0.4)) for _ in range(5)] for _ in range(20)]
    one = arm("a", tasks)
    scored = score([one], [1.0, 2.0, 4.0])
    for column, budget in enumerate(scored.budgets):
        assert scored.first[0, :, column].mean() == pytest.approx(pass_first(one.outcomes, budget))
        assert scored.all[0, :, column].mean() == pytest.approx(pass_all(one.outcomes, budget))
    assert (scored.at([4.0]).first[0, :, 0] == scored.first[0, :, 2]).all()


def test_samples_of_other_tasks_are_left_out_of_all_that_follows() -> None:
    scored = score([passing("a", 9, 9), passing("b", 2, 2)], [2.0])
    assert [len(each.outcomes) for each in scored.arms] == [2, 2]


def test_without_arms_or_common_tasks_there_is_nothing_to_measure() -> None:
    with pytest.raises(MetricError, match="no arm"):
        score([], [1.0])
    with pytest.raises(MetricError, match="in common"):
        score([passing("a", 1, 2), passing("b", 1, 2, start=2)], [1.0])
