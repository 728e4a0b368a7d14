"""What load takes from a service: Pass@First against the idle service, paired by prompt, in figures and words.

Requests are not independent where a prompt is asked for several times: how hard it is does not change. So every
interval here is over prompts, each with the mean of its own requests. Both sides of a comparison had the same prompts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from evaluation.load_metrics import LoadPoint, PromptTally

MARGIN = 0.05
"""By how much Pass@First may be lower than on the idle service at a rate that the service still carries."""
POINTS = f"{100 * MARGIN:g} points"
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Difference:
    """Pass@First of A minus B, as the mean over the prompts that both had, with its 95 % interval."""

    delta: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """The highest rate that a service carries, in requests per second.

    `estimate` is the highest tried rate at which Pass@First is within MARGIN of the idle service (None: no rate is).
    Up to `low` every tried rate is shown to keep Pass@First within MARGIN (None: no rate is). Above `high` every tried
    rate is shown to lose more (None: every rate is).
    """

    estimate: float | None
    low: float | None
    high: float | None


def compare_tallies(a: Sequence[PromptTally], b: Sequence[PromptTally]) -> Difference:
    """A against B, with the tallies of the same prompts in the same order.

    Agresti and Min's adjusted Wald interval with the mean difference of each prompt as one observation; exactly theirs
    where each prompt was asked for once. Its width is above 0 even where no prompt differs.
    """
    deltas = [one.right / one.asked - other.right / other.asked for one, other in zip(a, b, strict=False)]
    n = len(deltas) + 2.0
    centre, square = sum(deltas) / n, (sum(delta * delta for delta in deltas) + 1.0) / n
    half = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(max(square - centre * centre, 0.0) / n)
    return Difference(sum(deltas) / len(deltas), max(-1.0, centre - half), min(1.0, centre + half))


def find_capacity(idle: LoadPoint, tried: Sequence[LoadPoint]) -> Capacity:
    """What the points at the tried rates, ascending, say about the capacity of a service that was also measured idle.

    Tests in a fixed order need no correction: from the lowest rate up until one is not shown to keep its quality, and
    from the highest rate down until one is not shown to lose it. A service without a right answer when idle has nothing
    to lose, and no capacity.
    """
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    compared = [(point.rate, compare_tallies(point.by_prompt, idle.by_prompt)) for point in tried]
    for rate, found in compared:
        if found.low <= -MARGIN:
            break
        low = rate
    for rate, found in reversed(compared):
        if found.high >= -MARGIN:
            high = rate
            break
    if idle.pass_first:
        carried = [point.rate for point in tried if point.pass_first >= idle.pass_first - MARGIN - 1e-9]
        estimate = carried[-1] if carried else None
    return Capacity(estimate, low, high)


def describe_capacity(idle: LoadPoint, tried: Sequence[LoadPoint]) -> str:
    """What rate the service carries by the best estimate, and what of that is shown."""
    rates, share = ", ".join(f"{point.rate:g}" for point in tried), f"{100 * idle.pass_first:.0f} %"
    if not idle.pass_first:
        return "The idle service has no right answer in time, so load cannot lower its quality."
    found = find_capacity(idle, tried)
    if found.estimate is None:
        said = (
            f"Best estimate: it carries none of the rates tried ({rates} requests per second). Pass@First is more than "
            f"{POINTS} below the idle service ({share})."
        )
    else:
        said = (
            f"Best estimate: it carries {found.estimate:g} {'request' if found.estimate == 1 else 'requests'} per "
            f"second. Pass@First there is within {POINTS} of the idle service ({share}), or above. Tried: {rates}."
        )
    least = f"no rate is shown to stay within {POINTS}" if found.low is None else f"it carries at least {found.low:g}"
    if found.high is None:
        most = "every tried rate is shown to lose more"
    elif found.high == tried[-1].rate:
        most = "no rate is shown to lose more"
    else:
        most = f"all rates above {found.high:g} are shown to lose more"
    return f"{said} At 95 % confidence, {least} and {most} (over {len(idle.by_prompt)} prompts)."
