"""The figures of a load test: what quality is left when many requests arrive in a second.

Times are seconds from the moment at which a request was due, so a client or a service that falls behind does not hide
the wait. A request that was refused or has failed counts as not solved: its user got no right answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal, NamedTuple

import numpy as np

from evaluation.metrics import MetricError, SampleOutcome, compute_wilson_interval
from evaluation.outcomes import PairedOutcomes

Fate = Literal["answered", "refused", "failed"]

UNCLOCKED_S = 0.5
"""A wait beyond the service's own clock that is worth a warning: finish times are too early by up to as much."""


@dataclass(frozen=True, slots=True)
class LoadTestRequest:
    """One request of a load test as its client saw it."""

    key: str
    fate: Fate
    # empty unless it was answered; `finished_s` counts from when the request was due
    samples: tuple[SampleOutcome, ...] = ()
    answer_s: float | None = None  # arrival of the whole answer, from when the request was due
    # the part of the wait outside the service's own times: connecting, and what it does before its clock starts and
    # after its last sample
    unclocked_s: float | None = None
    retry_after_s: float | None = None
    prompt: str = ""  # the same for all requests of a prompt; empty: no other request has it

    @property
    def outcomes(self) -> tuple[SampleOutcome, ...]:
        """The samples, or one that never finished: the metrics count a request by its rows."""
        return self.samples or (SampleOutcome(self.key, 0, None, None, False, 0),)

    @property
    def first_finished_s(self) -> float | None:
        """When the first of the samples finished, None where none did."""
        return min((one.finished_s for one in self.samples if one.finished_s is not None), default=None)


class PromptTally(NamedTuple):
    """The requests of one prompt: how many there were, and how many were answered right in time (by the chosen sample,
    or by any)."""

    asked: int
    right: int


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """A service at one rate. Shares are of all requests, with 95 % intervals over prompts; quantiles are over the
    requests that have such a time, None where none has.
    """

    rate: float | None  # requests per second; None: idle, one request at a time
    window_s: float  # how long requests arrived
    requests: int
    answered: int
    refused: int
    failed: int
    retry_after_s: float | None
    pass_first: float
    pass_first_interval: tuple[float, float]
    pass_all: float
    pass_all_interval: tuple[float, float]
    first_finished_p50_s: float | None
    first_finished_p95_s: float | None
    answer_p50_s: float | None
    answer_p95_s: float | None
    over_budget: float  # share of the answers
    over_budget_max_s: float
    unclocked_p95_s: float | None
    tokens_per_s: float  # until the last answer
    right_in_time: int  # requests whose chosen sample is right within the budget
    right_in_time_per_s: float  # over the window
    n_given: float | None  # mean number of samples in an answer
    by_prompt: tuple[PromptTally, ...]  # in the order in which all rates ask for the prompts
    lost_to_others: float | None = None  # share of the machine that other programs took meanwhile; None: unknown


def build_point(
    asked: Sequence[LoadTestRequest], rate: float | None, budget_s: float, window_s: float, elapsed_s: float
) -> LoadPoint:
    """The figures of the requests that arrived within `window_s` at one rate.

    `elapsed_s` is from the start until the last of them was settled. Raises MetricError without requests.
    """
    if not asked:
        raise MetricError("there are no requests to measure")
    found = PairedOutcomes.from_samples(sample for one in asked for sample in one.outcomes)
    prompts = [one.prompt or one.key for one in asked]
    solved = found.find_passes(budget_s)
    of_first, of_all = (_tally(zip(prompts, each[0].tolist(), strict=True)) for each in solved)
    pass_first, pass_first_interval = _estimate_share(of_first)
    pass_all, pass_all_interval = _estimate_share(of_all)
    right_in_time = sum(one.right for one in of_first)
    answered = [one for one in asked if one.fate == "answered"]
    firsts = [one.first_finished_s for one in answered]
    answers = [one.answer_s for one in answered if one.answer_s is not None]
    late = [seconds - budget_s for seconds in answers if seconds > budget_s]
    hints = [one.retry_after_s for one in asked if one.retry_after_s is not None]
    return LoadPoint(
        rate=rate,
        window_s=window_s,
        requests=len(asked),
        answered=len(answered),
        refused=sum(one.fate == "refused" for one in asked),
        failed=sum(one.fate == "failed" for one in asked),
        retry_after_s=median(hints) if hints else None,
        pass_first=pass_first,
        pass_first_interval=pass_first_interval,
        pass_all=pass_all,
        pass_all_interval=pass_all_interval,
        first_finished_p50_s=_compute_quantile(firsts, 0.5),
        first_finished_p95_s=_compute_quantile(firsts, 0.95),
        answer_p50_s=_compute_quantile(answers, 0.5),
        answer_p95_s=_compute_quantile(answers, 0.95),
        over_budget=len(late) / len(answers) if answers else 0.0,
        over_budget_max_s=max(late, default=0.0),
        unclocked_p95_s=_compute_quantile((one.unclocked_s for one in answered), 0.95),
        tokens_per_s=sum(s.n_tokens for one in answered for s in one.samples) / elapsed_s,
        right_in_time=right_in_time,
        right_in_time_per_s=right_in_time / window_s,
        n_given=fmean(len(one.samples) for one in answered) if answered else None,
        by_prompt=of_first,
    )


def _tally(outcomes: Iterable[tuple[str, bool]]) -> tuple[PromptTally, ...]:
    """The tally of each prompt, from the prompt of each request and whether it was right in time."""
    rights: dict[str, list[bool]] = {}
    for prompt, right in outcomes:
        rights.setdefault(prompt, []).append(right)
    return tuple(PromptTally(len(each), sum(each)) for each in rights.values())


def count_effective_requests(tallies: Sequence[PromptTally]) -> float:
    """How many independent requests tell as much about the share of right ones as these.

    The design effect of a cluster sample, at least 1; where all or none are right, one request for each prompt.
    """
    n, asked, right = len(tallies), sum(one.asked for one in tallies), sum(one.right for one in tallies)
    if asked == n:
        return float(asked)
    share = right / asked
    if share in (0.0, 1.0) or n < 2:
        return float(n)
    spread = sum((one.right - share * one.asked) ** 2 for one in tallies) * n / (n - 1)
    return asked / max(spread / (asked * share * (1 - share)), 1.0)


def _estimate_share(tallies: Sequence[PromptTally]) -> tuple[float, tuple[float, float]]:
    """The share of the requests that are right, and Wilson's interval with the effective number of requests: ten of one
    prompt tell less than ten of ten prompts."""
    share = sum(one.right for one in tallies) / sum(one.asked for one in tallies)
    requests = count_effective_requests(tallies)
    return share, compute_wilson_interval(share * requests, requests)


def _compute_quantile(times: Iterable[float | None], q: float) -> float | None:
    known = [seconds for seconds in times if seconds is not None]
    return float(np.quantile(known, q, method="inverted_cdf")) if known else None
