"""What load takes from a service: Pass@First against the idle service, paired by prompt, in figures and words.

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
POINTS = f"{100 * MARGIN:g} points"
CONFIDENCE = 0.95


class PromptTally(NamedTuple):
    """The requests of one prompt: how many there were, and how many were answered right in time (by the chosen sample,
    or by any)."""

    asked: int
    right: int


class RateResult(NamedTuple):
    """A rate that was tried (0: idle), Pass@First at it, and the tallies of its prompts in their order."""

    rate: float
    pass_first: float
    by_prompt: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Difference:
    """Pass@First of A minus B, as the mean over the prompts that both had, with its 95 % interval."""

    delta: float
    low: float
    high: float
    prompts: int
    requests: int  # of A and B together


@dataclass(frozen=True, slots=True)
class CapacityRange:
    """What is shown of a capacity, in requests per second.

    Up to `low` every tried rate is shown to keep Pass@First within MARGIN of the idle service (None: no rate is). Above
    `high` every tried rate is shown to lose more (None: every rate is); `high` is the highest rate tried where the load
    is not shown to lose more.
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

    Agresti and Min's adjusted Wald interval with the mean difference of each prompt as one observation; exactly theirs
    where each prompt was asked for once. Its width is above 0 even where no prompt differs. Raises MetricError where
    they share no prompt.
    """
    prompts = [prompt for prompt in a if prompt in b]
    if not prompts:
        raise MetricError("the two rates share no prompt: compare rates over the same prompts")
    deltas = [a[one].right / a[one].asked - b[one].right / b[one].asked for one in prompts]
    n = len(deltas) + 2.0
    centre, square = sum(deltas) / n, (sum(delta * delta for delta in deltas) + 1.0) / n
    error = math.sqrt(max(square - centre * centre, 0.0) / n)
    low, high = _compute_bounds(centre, error)
    return Difference(
        delta=sum(deltas) / len(deltas),
        low=low,
        high=high,
        prompts=len(deltas),
        requests=sum(a[one].asked + b[one].asked for one in prompts),
    )


def find_capacity(idle_pass_first: float, tried: Iterable[RateResult]) -> float | None:
    """The highest tried rate at which Pass@First is within MARGIN of the idle service; None where none is.

    A service without a right answer when idle has nothing to lose, and no capacity.
    """
    if not idle_pass_first:
        return None
    least = idle_pass_first - MARGIN - 1e-9
    return max((one.rate for one in tried if one.pass_first >= least), default=None)


def compare_with_idle(idle: RateResult, tried: Iterable[RateResult]) -> list[tuple[float, Difference]]:
    """Each tried rate minus the idle service, paired by prompt."""
    own = _key_by_position(idle.by_prompt)
    return [(one.rate, compare_tallies(_key_by_position(one.by_prompt), own)) for one in tried]


def _key_by_position(by_prompt: Sequence[Sequence[int]]) -> dict[str, PromptTally]:
    """The tallies by the place of their prompt: every rate asks for the same prompts, in the same order."""
    return {str(place): PromptTally(asked, right) for place, (asked, right) in enumerate(by_prompt)}


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


def count_effective_requests(tallies: Iterable[PromptTally]) -> float:
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


def _compute_bounds(centre: float, error: float) -> tuple[float, float]:
    half = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * error
    return max(-1.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True, slots=True)
class LoadTestResult:
    """A service as a load test measured it: idle, and at each tried rate in order."""

    idle: RateResult
    tried: Sequence[RateResult]

    @property
    def capacity(self) -> float | None:
        """The best estimate, in requests per second."""
        return find_capacity(self.idle.pass_first, self.tried)


def describe_capacity(service: LoadTestResult) -> str:
    """What rate the service carries by the best estimate, and what of that is shown."""
    rates, idle = ", ".join(f"{one.rate:g}" for one in service.tried), f"{100 * service.idle.pass_first:.0f} %"
    if not service.idle.pass_first:
        return "The idle service has no right answer in time, so load cannot lower its quality."
    found = service.capacity
    if found is None:
        said = (
            f"Best estimate: it carries none of the rates tried ({rates} requests per second). Pass@First is more than "
            f"{POINTS} below the idle service ({idle})."
        )
    else:
        said = (
            f"Best estimate: it carries {_format_rate(found)}. Pass@First there is within {POINTS} of the idle service "
            f"({idle}), or above. Tried: {rates}."
        )
    return f"{said} {_describe_range(service, found)}"


def _describe_range(service: LoadTestResult, estimate: float | None) -> str:
    compared = compare_with_idle(service.idle, service.tried)
    shown, last = bound_capacity(compared), compared[-1][0]
    least = f"no rate is shown to stay within {POINTS}" if shown.low is None else f"it carries at least {shown.low:g}"
    more = "" if shown.low is None else f" than {POINTS}"
    if shown.high is None:
        most = "every tried rate is shown to lose more"
    elif shown.high == last:
        most = f"no rate is shown to lose more{more}"
    else:
        most = f"all rates above {shown.high:g} are shown to lose more{more}"
    text = f"At 95 % confidence, {least} and {most}"
    above = [pair for pair in compared if estimate is not None and pair[0] >= estimate]
    undecided = [pair for pair in (*above, *compared) if not _is_decided(pair[1])]
    if not undecided:
        return f"{text} ({_format_counts(compared[-1][1])})."
    rate, nearest = undecided[0]
    return f"{text}. At {rate:g} the difference is {_format_interval(nearest)}: undecided."


def _is_decided(found: Difference) -> bool:
    return found.low > -MARGIN or found.high < -MARGIN


def _format_interval(found: Difference) -> str:
    bounds = (f"{100 * value:+.1f}" for value in (found.delta, found.low, found.high))
    delta, low, high = (text.replace("-", "−") for text in bounds)
    return f"{delta} points (95 %: {low} to {high}; {_format_counts(found)})"


def _format_counts(found: Difference) -> str:
    prompts = "1 prompt" if found.prompts == 1 else f"{found.prompts} prompts"
    return f"{prompts}, {found.requests} requests"


def _format_rate(rate: float) -> str:
    return f"{rate:g} {'request' if rate == 1 else 'requests'} per second"
