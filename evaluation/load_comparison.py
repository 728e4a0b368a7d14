"""What load takes from a service: its Pass@First against the idle service, paired by prompt, with an interval.

Requests are not independent where a prompt is asked for several times: how hard it is does not change. So every
interval here is over prompts, each with the mean of its own requests. Both sides of a comparison had the same prompts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from evaluation.metrics import MetricError

MARGIN = 0.05
"""By how much Pass@First may be lower than on the idle service at a rate that the service still carries."""
POWER = 0.8
CONFIDENCE = 0.95


class PromptTally(NamedTuple):
    """The requests of one prompt: how many there were, and how many had a right chosen sample in time."""

    asked: int
    right: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Pass@First of A minus B, as the mean over the prompts that both had, with its 95 % interval.

    `prompts_needed` would show a difference of MARGIN in 80 % of the cases, with as many requests for each.
    """

    delta: float
    low: float
    high: float
    prompts: int
    requests: int  # of A and B together
    prompts_needed: int


@dataclass(frozen=True, slots=True)
class CapacityRange:
    """What is shown of a capacity, in requests per second.

    Up to `low` every tried rate is shown to keep Pass@First within MARGIN of the idle service (None: no rate is). Above
    `high` every tried rate is shown to lose more (None: every rate is); `high` is the highest rate tried where the load
    test did not reach its end.
    """

    low: float | None
    high: float | None


def tally(outcomes: Iterable[tuple[str, bool]]) -> dict[str, PromptTally]:
    """The tally of each prompt, from the prompt of each request and whether it was right in time."""
    found: dict[str, PromptTally] = {}
    for prompt, right in outcomes:
        asked, before = found.get(prompt, (0, 0))
        found[prompt] = PromptTally(asked + 1, before + right)
    return found


def compare_tallies(a: Mapping[str, PromptTally], b: Mapping[str, PromptTally]) -> Difference:
    """A against B over the prompts that both had.

    Agresti and Min's adjusted Wald interval over prompts in place of tasks: the same interval where each prompt was
    asked for once. Its width is above 0 even where no prompt differs. Raises MetricError where
    they share no prompt.
    """
    prompts = [prompt for prompt in a if prompt in b]
    if not prompts:
        raise MetricError("the two rates share no prompt: compare rates over the same prompts")
    deltas = [a[one].right / a[one].asked - b[one].right / b[one].asked for one in prompts]
    n = len(deltas) + 2.0
    centre, square = sum(deltas) / n, (sum(delta * delta for delta in deltas) + 1.0) / n
    error = math.sqrt(max(square - centre * centre, 0.0) / n)
    low, high = _bounds(centre, error)
    return Difference(
        delta=sum(deltas) / len(deltas),
        low=low,
        high=high,
        prompts=len(deltas),
        requests=sum(a[one].asked + b[one].asked for one in prompts),
        prompts_needed=max(len(deltas) + 1, _prompts_to_detect(square)),
    )


def bound_capacity(tried: Sequence[tuple[float, Difference]]) -> CapacityRange:
    """What is shown of a capacity, from the difference of each tried rate to the idle service, rates in order.

    Tests in a fixed order need no correction: from the lowest rate up until one is not shown to keep its quality, and
    from the highest rate down until one is not shown to lose it.
    """
    low: float | None = None
    for rate, found in tried:
        if found.low <= -MARGIN:
            break
        low = rate
    high: float | None = None
    for rate, found in reversed(tried):
        if found.high >= -MARGIN:
            high = rate
            break
    return CapacityRange(low, high)


def effective_requests(tallies: Iterable[PromptTally]) -> float:
    """How many independent requests tell as much about the share of right ones as these.

    The design effect of a cluster sample, at least 1; where all or none are right, one request for each prompt.
    """
    rows = list(tallies)
    asked, right = sum(one.asked for one in rows), sum(one.right for one in rows)
    if asked == len(rows):
        return float(asked)
    share = right / asked
    if share in (0.0, 1.0) or len(rows) < 2:
        return float(len(rows))
    spread = sum((one.right - share * one.asked) ** 2 for one in rows) * len(rows) / (len(rows) - 1)
    effect = spread / (asked * share * (1 - share))
    return asked / max(effect, 1.0)


def _bounds(centre: float, error: float) -> tuple[float, float]:
    half = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * error
    return max(-1.0, centre - half), min(1.0, centre + half)


def _prompts_to_detect(square: float) -> int:
    """How many prompts show a difference of MARGIN, where the mean square of a prompt's difference stays as it is."""
    errors = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) + NormalDist().inv_cdf(POWER)
    return math.ceil(square * (errors / MARGIN) ** 2)
