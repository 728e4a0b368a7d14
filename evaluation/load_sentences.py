"""What a load test says in words: no rate is claimed without its interval, and nothing is claimed that is undecided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.load_comparison import MARGIN, Difference, bound_capacity
from evaluation.load_metrics import RateResult, against_idle, capacity

POINTS = f"{100 * MARGIN:g} points"


@dataclass(frozen=True, slots=True)
class LoadedService:
    """A service as a load test measured it: idle, and at each tried rate in order."""

    idle: RateResult
    tried: Sequence[RateResult]
    budget_s: float
    dataset: str = ""
    dataset_tasks: int | None = None

    @property
    def capacity(self) -> float | None:
        """The best estimate, in requests per second."""
        return capacity(self.idle.pass_first, self.tried)


def describe_capacity(service: LoadedService) -> str:
    """What rate the service carries by the best estimate, and what of that is shown."""
    rates, idle = ", ".join(f"{one.rate:g}" for one in service.tried), f"{100 * service.idle.pass_first:.0f} %"
    if not service.idle.pass_first:
        return "The idle service has no right answer in time, so there is no quality that load could take away."
    found = service.capacity
    if found is None:
        said = (
            f"It carries none of the rates tried, {rates} requests per second, by the best estimate: Pass@First is "
            f"more than {POINTS} below the {idle} of the idle service."
        )
    else:
        said = (
            f"It carries {_per_second(found)} by the best estimate: there Pass@First is within {POINTS} of the {idle} "
            f"of the idle service, or above. Tried: {rates}."
        )
    return f"{said} {_describe_range(service, found)}"


def _describe_range(service: LoadedService, estimate: float | None) -> str:
    compared = against_idle(service.idle, service.tried)
    shown, last = bound_capacity(compared), compared[-1][0]
    least = f"no rate is shown to stay within {POINTS}" if shown.low is None else f"at least {shown.low:g} is shown"
    more = "" if shown.low is None else f" than {POINTS}"
    if shown.high is None:
        most = "every tried rate is shown to lose more"
    elif shown.high == last:
        most = f"no rate is shown to lose more{more}"
    else:
        most = f"all rates above {shown.high:g} are shown to lose more{more}"
    text = f"By intervals of 95 %, {least} and {most}"
    above = [pair for pair in compared if estimate is not None and pair[0] >= estimate]
    undecided = [pair for pair in (*above, *compared) if not _is_decided(pair[1])]
    if not undecided:
        return f"{text} ({_on(compared[-1][1])})."
    rate, nearest = undecided[0]
    return f"{text}. At {rate:g} the difference is {_interval(nearest)}: undecided. {_what_decides(service, nearest)}"


def _what_decides(service: LoadedService, found: Difference) -> str:
    """How long a test would decide: its number of prompts follows from how long requests arrive."""
    prompts = int(float(f"{found.prompts_needed:.2g}"))
    rate = max(one.rate for one in service.tried)
    seconds = math.ceil(prompts * max(service.budget_s, 1 / rate))
    said = f"About {prompts:,} prompts would decide a difference of {POINTS} (--duration {seconds})"
    if service.dataset_tasks is not None and prompts > service.dataset_tasks:
        return f"{said}, more than the {service.dataset_tasks} of {service.dataset}."
    return f"{said}."


def _is_decided(found: Difference) -> bool:
    return found.low > -MARGIN or found.high < -MARGIN


def _interval(found: Difference) -> str:
    bounds = (f"{100 * value:+.1f}" for value in (found.delta, found.low, found.high))
    delta, low, high = (text.replace("-", "−") for text in bounds)
    return f"{delta} points (95 %: {low} to {high}; {_on(found)})"


def _on(found: Difference) -> str:
    prompts = "1 prompt" if found.prompts == 1 else f"{found.prompts} prompts"
    return f"{prompts}, {found.requests} requests"


def _per_second(rate: float) -> str:
    return f"{rate:g} {'request' if rate == 1 else 'requests'} per second"
