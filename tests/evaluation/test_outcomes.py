"""Arrays of many runs give what the definitions say, read aloud sample by sample, at every budget."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from evaluation.metrics import Curve, MetricError, SampleOutcome, build_rank_key
from evaluation.outcomes import PairedOutcomes, SampleColumns

BUDGETS = (0.5, 1.0, 2.0, 2.5, 7.0, 10.0)


def columns(runs: list[list[SampleOutcome]], tasks: list[str]) -> SampleColumns:
    """The samples of all runs, shuffled: no result may depend on their order."""
    rows = [(run, sample) for run, samples in enumerate(runs) for sample in samples]
    random.Random(3).shuffle(rows)
    nan = math.nan
    return SampleColumns(
        run=np.array([run for run, _ in rows], dtype=np.int64),
        task=np.array([tasks.index(s.task_id) for _, s in rows], dtype=np.int64),
        index=np.array([s.index for _, s in rows], dtype=np.int64),
        finished_s=np.array([nan if s.finished_s is None else s.finished_s for _, s in rows], dtype=np.float64),
        mean_logprob=np.array([nan if s.mean_logprob is None else s.mean_logprob for _, s in rows], dtype=np.float64),
        passed=np.array([s.passed for _, s in rows], dtype=np.bool_),
        n_tokens=np.array([s.n_tokens for _, s in rows], dtype=np.int64),
    )


def made_up(dice: random.Random, tasks: list[str], n: int) -> list[SampleOutcome]:
    """Samples with ties in time and log-probability, without either, and ended on a budget to the digit."""
    return [
        SampleOutcome(
            task_id=task,
            index=index,
            finished_s=dice.choice([None, dice.choice(BUDGETS), round(dice.uniform(0.1, 12), 2)]),
            mean_logprob=dice.choice([None, -0.5, -0.2, dice.gauss(-0.3, 0.1)]),
            passed=dice.random() < 0.4,
            n_tokens=10,
        )
        for task in tasks
        for index in range(n)
    ]


def solve(samples: list[SampleOutcome], task: str, budget_s: float) -> tuple[bool, bool]:
    """Whether the chosen sample of the task passes within the budget, and whether any does."""
    done = [s for s in samples if s.task_id == task and s.finished_s is not None and s.finished_s <= budget_s]
    best = max(done, key=lambda s: build_rank_key(s.mean_logprob, s.index), default=None)
    return best is not None and best.passed, any(s.passed for s in done)


@pytest.mark.parametrize("seed", range(20))
def test_every_run_is_solved_as_the_definitions_say(seed):
    dice = random.Random(seed)
    tasks = [f"t/{i}" for i in range(dice.randint(1, 12))]
    runs = [made_up(dice, tasks, dice.randint(1, 6)) for _ in range(dice.randint(1, 5))]
    found = PairedOutcomes(len(runs), tasks, columns(runs, tasks))
    from_samples = PairedOutcomes.from_samples(*runs)
    for run, samples in enumerate(runs):
        curve = found.build_curve(run, 9.5)
        assert curve.budgets[-1] == 9.5
        for budget in (*BUDGETS, *(s.finished_s for s in samples if s.finished_s is not None)):
            first, every = ([solve(samples, task, budget)[figure] for task in tasks] for figure in range(2))
            for one in (found, from_samples):
                solved = [one.find_solved(figure, budget)[run].tolist() for figure in ("first", "all")]
                assert solved == [first, every]
            if budget <= 9.5:
                assert curve.get_shares_at(budget) == (sum(first) / len(tasks), sum(every) / len(tasks))
        for task, seconds in zip(tasks, found.find_first_correct_times()[run].tolist(), strict=True):
            passed = [s.finished_s for s in samples if s.task_id == task and s.passed and s.finished_s is not None]
            assert seconds == min(passed) if passed else math.isnan(seconds)


def test_the_chosen_sample_is_named_by_its_place_in_the_columns():
    samples = [
        SampleOutcome("t", 0, 1.0, -0.5, False, 1),
        SampleOutcome("t", 1, 2.0, -0.1, True, 1),
        SampleOutcome("t", 2, 3.0, -0.3, False, 1),
    ]
    given = columns([samples], ["t"])
    found = PairedOutcomes(1, ["t"], given)
    assert found.find_chosen(0.5)[0, 0] == -1
    assert [int(given.index[found.find_chosen(budget)[0, 0]]) for budget in (1.0, 2.0, 9.0)] == [0, 1, 1]


def test_runs_of_which_no_sample_finished_solve_nothing():
    samples = [SampleOutcome("t", 0, None, -0.5, True, 1)]
    found = PairedOutcomes(2, ["t"], columns([samples, samples], ["t"]))
    first, every = found.find_passes(5.0)
    assert not first.any()
    assert not every.any()
    assert (found.find_chosen(5.0) == -1).all()
    assert np.isnan(found.find_first_correct_times()).all()
    assert found.build_curve(1, 5.0) == Curve((5.0,), (0.0,), (0.0,))


def test_nothing_to_measure_is_an_error():
    with pytest.raises(MetricError, match="no runs or no tasks"):
        PairedOutcomes(0, ["t"], columns([], []))
