"""The figures are what their definitions say, checked by hand, against other tools and by their properties."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluation import metrics
from evaluation.metrics import BUDGET_GRID, MetricError, SampleOutcome
from evaluation.outcomes import PairedOutcomes, compute_pass_all, compute_pass_first


def sample(
    task: str, index: int, finished_s: float | None, passed: bool, logprob: float | None = None, n_tokens: int = 10
) -> SampleOutcome:
    return SampleOutcome(task, index, finished_s, logprob, passed, n_tokens)


# A: wrong at 1 s, right and likelier at 2 s, wrong and most likely at 4 s. B: right at 8 s. C: nothing in time.
RUN = [
    sample("A", 0, 2.0, True, -0.5, 40),
    sample("A", 1, 1.0, False, -0.9, 10),
    sample("A", 2, 4.0, False, -0.1, 20),
    sample("B", 0, 8.0, True, -0.3, 100),
    sample("B", 1, None, True, -0.1, 7),
    sample("C", 0, None, False, None, 0),
]

outcomes = st.lists(
    st.builds(
        SampleOutcome,
        task_id=st.sampled_from("ABCD"),
        index=st.integers(0, 9),
        finished_s=st.none() | st.floats(0.01, 700),
        mean_logprob=st.none() | st.floats(-9, 0),
        passed=st.booleans(),
        n_tokens=st.integers(0, 99),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda o: (o.task_id, o.index),
)


@pytest.mark.parametrize(
    ("budget", "by_logprob", "any_passes"),
    [
        (0.5, 0, 0),
        (1.0, 0, 0),
        (2.0, 1 / 3, 1 / 3),
        (3.9, 1 / 3, 1 / 3),
        (4.0, 0, 1 / 3),
        (8.0, 1 / 3, 2 / 3),
        (600.0, 1 / 3, 2 / 3),
    ],
)
def test_the_worked_example(budget: float, by_logprob: float, any_passes: float) -> None:
    assert compute_pass_first(RUN, budget) == pytest.approx(by_logprob)
    assert compute_pass_all(RUN, budget) == pytest.approx(any_passes)


def test_a_tie_goes_to_the_lower_index_and_a_missing_logprob_ranks_last() -> None:
    tie = [sample("A", 1, 1.0, False, -0.5), sample("A", 0, 2.0, True, -0.5)]
    assert compute_pass_first(tie, 5) == 1
    assert compute_pass_first([sample("A", 0, 1.0, False, None), sample("A", 1, 2.0, True, -5.0)], 5) == 1
    assert compute_pass_first([sample("A", 0, 1.0, False, math.nan), sample("A", 1, 2.0, True, -5.0)], 5) == 1


@given(outcomes)
def test_pass_all_never_falls_with_the_budget_and_is_never_below_pass_first(
    run: list[SampleOutcome],
) -> None:
    curve = PairedOutcomes.from_samples(run).build_curve(0, 600.0)
    assert list(curve.pass_all) == sorted(curve.pass_all)
    assert all(0 <= first <= every <= 1 for first, every in zip(curve.pass_first, curve.pass_all, strict=True))


@given(outcomes, st.lists(st.floats(0, 600)), st.randoms())
def test_a_curve_is_the_definition_at_every_budget_and_the_order_of_rows_does_not_matter(
    run: list[SampleOutcome], budgets: list[float], random: object
) -> None:
    curve = PairedOutcomes.from_samples(run).build_curve(0, 600.0)
    random.shuffle(run)  # type: ignore[attr-defined]
    assert curve == PairedOutcomes.from_samples(run).build_curve(0, 600.0)
    ends = [o.finished_s for o in run if o.finished_s is not None and o.finished_s <= 600.0]
    just_before = [math.nextafter(end, 0.0) for end in ends]
    for budget in (*budgets, *ends, *just_before):
        assert curve.get_shares_at(budget) == (compute_pass_first(run, budget), compute_pass_all(run, budget))


def test_a_curve_has_the_budgets_at_which_a_share_changes_and_ends_at_its_own() -> None:
    run = [sample("A", 0, 1.0, False, -0.5), sample("A", 1, 2.0, True, -0.1), sample("B", 0, 3.0, False, -0.1)]
    assert PairedOutcomes.from_samples(run).build_curve(0, 9.0) == metrics.Curve((2.0, 9.0), (0.5, 0.5), (0.5, 0.5))
    assert PairedOutcomes.from_samples(run).build_curve(0, 2.0) == metrics.Curve((2.0,), (0.5,), (0.5,))
    assert PairedOutcomes.from_samples(run).build_curve(0, 1.5) == metrics.Curve((1.5,), (0.0,), (0.0,))


@given(outcomes)
def test_pass_first_is_the_definition_read_aloud(run: list[SampleOutcome]) -> None:
    budget = 50.0
    tasks = {o.task_id for o in run}
    right = 0
    for task in tasks:
        done = [o for o in run if o.task_id == task and o.finished_s is not None and o.finished_s <= budget]
        ranked = sorted(done, key=lambda o: (-math.inf if o.mean_logprob is None else o.mean_logprob, -o.index))
        right += bool(ranked) and ranked[-1].passed
    assert compute_pass_first(run, budget) == pytest.approx(right / len(tasks))


@given(outcomes)
def test_one_sample_per_task_leaves_nothing_to_rank(run: list[SampleOutcome]) -> None:
    single = list({o.task_id: o for o in run}.values())
    assert compute_pass_first(single, 100) == compute_pass_all(single, 100)


def test_pass_at_1_is_over_tasks_and_ignores_the_budget() -> None:
    assert metrics.compute_pass_at_1(RUN) == pytest.approx((1 / 3 + 1 + 0) / 3)


def test_latency_first_last_and_all_by_hand() -> None:
    # A: rows end at 1, 2, 4 s with 10, 40, 20 tokens: 100, 50, 200 ms. B: one row, 80 ms. C: none.
    latency = PairedOutcomes.from_samples(RUN).compute_latency()
    assert latency.first == pytest.approx((100 + 80) / 2)
    assert latency.last == pytest.approx((200 + 80) / 2)
    assert latency.all == pytest.approx(((100 + 50 + 200) / 3 + 80) / 2)
    assert PairedOutcomes.from_samples([sample("C", 0, None, False)]).compute_latency() == metrics.Latency(
        None, None, None
    )


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.9, 0.95]))
def test_wilson_agrees_with_scipy_and_holds_the_share(case: tuple[int, int], confidence: float) -> None:
    k, n = case
    low, high = metrics.compute_wilson_interval(k, n, confidence)
    expected = stats.binomtest(k, n).proportion_ci(confidence, "wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert 0 <= low <= k / n + 1e-12
    assert k / n - 1e-12 <= high <= 1


def test_wilson_gives_the_published_intervals() -> None:
    assert metrics.compute_wilson_interval(71, 164) == pytest.approx((0.359, 0.509), abs=1e-3)
    with pytest.raises(MetricError):
        metrics.compute_wilson_interval(0, 0)
    with pytest.raises(MetricError):
        metrics.compute_wilson_interval(5, 4)


def test_the_grid_is_logarithmic_and_holds_the_budgets_users_speak_of() -> None:
    assert list(BUDGET_GRID) == sorted(set(BUDGET_GRID))
    assert {0.25, 0.5, 1.0, 2.0, 2.5, 3.0, 5.0, 7.0, 10.0} <= set(BUDGET_GRID)
    assert all(len(f"{budget:.15g}".strip("0.").replace(".", "")) <= 2 for budget in BUDGET_GRID), "shown in full"
    assert (BUDGET_GRID[0], BUDGET_GRID[-1]) == (0.1, 600.0)
    assert max(b / a for a, b in pairwise(BUDGET_GRID)) < 1.17


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(MetricError, match="no runs or no tasks"):
        compute_pass_first([], 1)
