"""The figures of a load test: every request counts, from when it was due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.load_metrics import LoadTestRequest, PromptTally, build_point, count_effective_requests
from evaluation.metrics import MetricError, SampleOutcome

BUDGET_S = 5.0


def asked(key: str, *samples: tuple[float | None, float, bool], answer_s: float = 4.0, **more) -> LoadTestRequest:
    """A request answered with samples (finished_s, mean log-probability, passed) of ten tokens each."""
    outcomes = tuple(SampleOutcome(key, i, at, logprob, ok, 10) for i, (at, logprob, ok) in enumerate(samples))
    return LoadTestRequest(key, "answered", outcomes, answer_s=answer_s, **more)


def measured(*requests: LoadTestRequest, **more):
    return build_point(requests, 0.5, BUDGET_S, **{"window_s": 10.0, "elapsed_s": 20.0, **more})


def test_the_chosen_sample_is_the_likeliest_of_those_in_time():
    late_and_likely = (6.0, -0.1, True), (2.0, -0.5, False), (3.0, -0.9, True)
    found = measured(asked("a", *late_and_likely), asked("b", (2.0, -0.5, True), (3.0, -0.9, False)))
    assert (found.pass_first, found.pass_all, found.right_in_time) == (0.5, 1.0, 1)
    assert found.right_in_time_per_s == pytest.approx(0.1)


def test_refused_and_failed_requests_count_as_not_solved():
    right = asked("a", (1.0, -0.1, True))
    found = measured(
        right,
        LoadTestRequest("b", "refused", retry_after_s=3.0),
        LoadTestRequest("c", "failed"),
        LoadTestRequest("d", "refused"),
    )
    assert (found.requests, found.answered, found.refused, found.failed) == (4, 1, 2, 1)
    assert (found.pass_first, found.pass_all) == (0.25, 0.25)
    assert (found.retry_after_s, found.n_given) == (3.0, 1.0)


def test_an_answer_without_a_finished_sample_has_no_first_sample_and_is_over_budget_if_it_came_late():
    cut = asked("a", (None, -0.1, True), answer_s=5.4)
    found = measured(cut, asked("b", (2.0, -0.1, True), answer_s=2.5, unclocked_s=0.1))
    assert (found.first_finished_p50_s, found.first_finished_p95_s) == (2.0, 2.0)
    assert (found.answer_p50_s, found.answer_p95_s) == (2.5, 5.4)
    assert (found.over_budget, found.over_budget_max_s) == (0.5, pytest.approx(0.4))
    assert found.unclocked_p95_s == 0.1
    assert found.tokens_per_s == 1.0  # twenty tokens until the last answer, cut ones too


def test_a_rate_at_which_all_was_refused_has_no_times():
    found = measured(LoadTestRequest("a", "refused"), LoadTestRequest("b", "refused"))
    assert (found.pass_first, found.answer_p95_s, found.first_finished_p50_s, found.n_given) == (0.0, None, None, None)
    assert (found.tokens_per_s, found.over_budget) == (0.0, 0.0)


def test_without_requests_there_is_nothing_to_measure():
    with pytest.raises(MetricError, match="no requests"):
        measured()


@st.composite
def requests(draw) -> list[LoadTestRequest]:
    found = []
    for i in range(draw(st.integers(1, 12))):
        fate = draw(st.sampled_from(["answered", "refused", "failed"]))
        if fate != "answered":
            found.append(LoadTestRequest(f"{i}", fate))
            continue
        sample = st.tuples(st.none() | st.floats(0, 20), st.floats(-3, 0), st.booleans())
        found.append(asked(f"{i}", *draw(st.lists(sample, max_size=4)), answer_s=draw(st.floats(0, 30))))
    return found


@given(requests())
def test_figures_agree_with_each_other(asked_for):
    found = measured(*asked_for)
    assert found.answered + found.refused + found.failed == found.requests == len(asked_for)
    assert found.right_in_time <= found.pass_all * found.requests + 1e-9 <= found.answered + 2e-9
    assert found.pass_first_interval[0] <= found.pass_first <= found.pass_first_interval[1]
    assert found.pass_all_interval[0] <= found.pass_all <= found.pass_all_interval[1]
    in_time = [
        any(s.passed and s.finished_s is not None and s.finished_s <= BUDGET_S for s in a.samples) for a in asked_for
    ]
    assert found.pass_all == pytest.approx(sum(in_time) / len(asked_for))
    assert (found.over_budget > 0) == (found.over_budget_max_s > 0)


@given(requests(), st.floats(0.01, 10))
def test_waiting_longer_makes_nothing_better(asked_for, wait_s):
    later = [
        asked(a.key, *((s.finished_s and s.finished_s + wait_s, s.mean_logprob, s.passed) for s in a.samples))
        if a.fate == "answered"
        else a
        for a in asked_for
    ]
    assert measured(*later).pass_all <= measured(*asked_for).pass_all


def test_requests_of_one_prompt_count_as_one_where_they_agree():
    right, wrong = (1.0, -0.1, True), (1.0, -0.1, False)
    alike = [asked(f"{i}", right if i % 4 < 2 else wrong, prompt=f"p{i % 4}") for i in range(40)]
    once = [asked(f"{i}", right if i < 2 else wrong, prompt=f"p{i}") for i in range(4)]
    found, of_each = measured(*alike), measured(*once)
    assert found.by_prompt == ((10, 10), (10, 10), (10, 0), (10, 0))
    assert found.pass_first == of_each.pass_first == 0.5
    low, high = found.pass_first_interval
    assert high - low >= of_each.pass_first_interval[1] - of_each.pass_first_interval[0]
    independent = [asked(f"{i}", right if i % 2 else wrong, prompt=f"p{i // 10}") for i in range(40)]
    low, high = measured(*independent).pass_first_interval
    assert high - low < 0.31  # as 40 independent requests


def test_the_effective_number_of_requests_is_between_the_prompts_and_the_requests():
    def count(*pairs: tuple[int, int]) -> float:
        return count_effective_requests([PromptTally(*pair) for pair in pairs])

    assert count(*[(1, 1)] * 5, *[(1, 0)] * 5) == 10
    assert count(*[(4, 4)] * 5, *[(4, 0)] * 5) <= 10
    assert count(*[(4, 2)] * 10) == 40
    assert count(*[(4, 4)] * 10) == 10
