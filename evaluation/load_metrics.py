"""The figures of a load test: what quality is left when many requests arrive in a second.

Times are seconds from the moment at which a request was due, so a client or a service that falls behind does not hide
the wait. A request that was refused or has failed counts as not solved: its user got no right answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal, NamedTuple

import numpy as np

from evaluation.inference import Comparison, compare
from evaluation.metrics import MetricError, SampleOutcome, solved, wilson

Fate = Literal["answered", "refused", "failed"]

CAPACITY_LOSS = 0.05
"""By how much Pass@First may be lower than on the idle service at a rate that the service still carries."""
COLLAPSED = 0.5
"""A service has collapsed at a rate where Pass@First is below this share of its idle one."""
UNCLOCKED_S = 0.5
"""A wait beyond the service's own clock that is worth a warning: finish times are too early by up to as much."""
LOW_RATE = 0.1
"""The low rate of a comparison is the tried one nearest to this share of the rate at which the other collapsed."""


@dataclass(frozen=True, slots=True)
class LoadedRequest:
    """One request of a load test as its client saw it."""

    key: str  # the same for the same request to another service
    fate: Fate
    # empty unless it was answered; `finished_s` counts from when the request was due
    samples: tuple[SampleOutcome, ...] = ()
    answer_s: float | None = None  # arrival of the whole answer, from when the request was due
    # the part of the wait outside the service's own times: connecting, and what it does before its clock starts and
    # after its last sample
    unclocked_s: float | None = None
    retry_after_s: float | None = None

    @property
    def outcomes(self) -> tuple[SampleOutcome, ...]:
        """The samples, or one that never finished: the metrics count a request by its rows."""
        return self.samples or (SampleOutcome(self.key, 0, None, None, False, 0),)


@dataclass(frozen=True, slots=True)
class Point:
    """A service at one rate. Shares are of all requests, with Wilson's 95 % intervals; quantiles are over the requests
    that have such a time, None where none has.
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
    over_budget: float
    over_budget_max_s: float
    unclocked_p95_s: float | None
    tokens_per_s: float  # until the last answer
    right_in_time: int  # requests whose chosen sample is right within the budget
    right_in_time_per_s: float  # over the window
    n_given: float | None
    lost_to_others: float | None = None  # share of the machine that other programs took meanwhile; None: unknown


class RateResult(NamedTuple):
    """A rate that was tried, and Pass@First at it."""

    rate: float
    pass_first: float


def point(
    asked: Sequence[LoadedRequest], rate: float | None, budget_s: float, window_s: float, elapsed_s: float
) -> Point:
    """The figures of the requests that arrived within `window_s` at one rate; all were settled after `elapsed_s`.

    Raises MetricError without requests.
    """
    if not asked:
        raise MetricError("there are no requests to measure")
    grid = solved((sample for one in asked for sample in one.outcomes), (budget_s,))
    first, every = int(grid.first.sum()), int(grid.all.sum())
    answered = [one for one in asked if one.fate == "answered"]
    firsts = [
        min(ends) for one in answered if (ends := [s.finished_s for s in one.samples if s.finished_s is not None])
    ]
    answers = [one.answer_s for one in answered if one.answer_s is not None]
    unclocked = [one.unclocked_s for one in answered if one.unclocked_s is not None]
    hints = [one.retry_after_s for one in asked if one.retry_after_s is not None]
    return Point(
        rate=rate,
        window_s=window_s,
        requests=len(asked),
        answered=len(answered),
        refused=sum(one.fate == "refused" for one in asked),
        failed=sum(one.fate == "failed" for one in asked),
        retry_after_s=median(hints) if hints else None,
        pass_first=first / len(asked),
        pass_first_interval=wilson(first, len(asked)),
        pass_all=every / len(asked),
        pass_all_interval=wilson(every, len(asked)),
        first_finished_p50_s=_quantile(firsts, 0.5),
        first_finished_p95_s=_quantile(firsts, 0.95),
        answer_p50_s=_quantile(answers, 0.5),
        answer_p95_s=_quantile(answers, 0.95),
        over_budget=sum(seconds > budget_s for seconds in answers) / len(answers) if answers else 0.0,
        over_budget_max_s=max((seconds - budget_s for seconds in answers if seconds > budget_s), default=0.0),
        unclocked_p95_s=_quantile(unclocked, 0.95),
        tokens_per_s=sum(s.n_tokens for one in answered for s in one.samples) / elapsed_s,
        right_in_time=first,
        right_in_time_per_s=first / window_s,
        n_given=fmean(len(one.samples) for one in answered) if answered else None,
    )


def capacity(idle_pass_first: float, tried: Iterable[RateResult]) -> float | None:
    """The highest tried rate at which Pass@First is within CAPACITY_LOSS of the idle service; None where none is.

    A service without a right answer when idle has nothing to lose, and no capacity.
    """
    if not idle_pass_first:
        return None
    least = idle_pass_first - CAPACITY_LOSS - 1e-9
    return max((rate for rate, pass_first in tried if pass_first >= least), default=None)


def sentence(idle_pass_first: float, tried: Sequence[RateResult]) -> str:
    """The capacity in words, with the rates that were tried."""
    rates = ", ".join(f"{rate:g}" for rate, _ in tried)
    loss, idle = f"{100 * CAPACITY_LOSS:g} points", f"{100 * idle_pass_first:.0f} %"
    if not idle_pass_first:
        return "The idle service has no right answer in time, so there is no quality that load could take away."
    found = capacity(idle_pass_first, tried)
    if found is None:
        return (
            f"It carries none of the rates tried, {rates} requests per second: Pass@First is more than {loss} below "
            f"the {idle} of the idle service."
        )
    return (
        f"It carries {found:g} {'request' if found == 1 else 'requests'} per second: there Pass@First is within {loss} "
        f"of the {idle} of the idle service, or above. Tried: {rates}."
    )


def collapse(idle_pass_first: float, tried: Iterable[RateResult]) -> float | None:
    """The lowest tried rate at which Pass@First is below COLLAPSED of the idle one; None where none is."""
    return min((rate for rate, pass_first in tried if pass_first < COLLAPSED * idle_pass_first), default=None)


def low_rate(rates: Iterable[float], collapsed_at: float | None) -> float:
    """The tried rate nearest to LOW_RATE of the collapse, as a ratio; without a collapse the lowest one.

    Raises ValueError without rates.
    """
    if collapsed_at is None:
        return min(rates)
    wanted = LOW_RATE * collapsed_at
    return min(rates, key=lambda rate: abs(math.log(rate / wanted)))


def difference(a: Sequence[LoadedRequest], b: Sequence[LoadedRequest], budget_s: float) -> Comparison:
    """Pass@First of service A against B over the same requests. Raises MetricError where they share none."""
    of_a, of_b = ([sample for one in asked for sample in one.outcomes] for asked in (a, b))
    return compare(of_a, of_b, budget_s)


def _quantile(values: Sequence[float], q: float) -> float | None:
    return float(np.quantile(values, q, method="inverted_cdf")) if values else None
