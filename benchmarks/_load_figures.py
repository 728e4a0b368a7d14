"""From the settled requests of a load test to its table, its figures and its sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks._load_service import ALONE, TOGETHER
from evaluation.load_comparison import bound_capacity
from evaluation.load_metrics import (
    UNCLOCKED_S,
    LoadedRequest,
    Point,
    RateResult,
    against_idle,
    collapse,
    compare_rates,
    compare_right,
    low_rate,
)
from evaluation.load_sentences import LoadedService, describe_capacity, describe_comparison

Rate = float | None  # None: idle
BAR = 20  # characters of 100 %


@dataclass
class Measured:
    """One service. `asked` and `points` are by rate (None: idle), in the order in which they were measured."""

    arm: str
    asked: dict[Rate, list[LoadedRequest]] = field(default_factory=dict)
    points: dict[Rate, Point] = field(default_factory=dict)

    @property
    def idle(self) -> Point:
        """The service without load. KeyError before it was measured."""
        return self.points[None]

    @property
    def loaded(self) -> list[Point]:
        """The points under load, by rate."""
        return [point for rate, point in self.points.items() if rate is not None]

    @property
    def tried(self) -> list[RateResult]:
        """The rates, ascending, with their Pass@First."""
        points = sorted(self.loaded, key=lambda point: point.rate or 0.0)
        return [RateResult(point.rate or 0.0, point.pass_first, point.by_prompt) for point in points]

    def summarize(self, budget_s: float, dataset: str = "", dataset_tasks: int | None = None) -> LoadedService:
        """What the sentences are about. KeyError before it was measured idle."""
        idle = RateResult(0.0, self.idle.pass_first, self.idle.by_prompt)
        return LoadedService(self.arm, idle, self.tried, budget_s, dataset, dataset_tasks)


def row(arm: str, point: Point) -> dict[str, Any]:
    """A line of the table: shares in per cent with their intervals, times in seconds."""
    return {
        "arm": arm,
        "rate": "idle" if point.rate is None else f"{point.rate:g}",
        "requests": point.requests,
        "answered": point.answered,
        "refused": point.refused,
        "failed": point.failed,
        "Pass@First": _share(point.pass_first, point.pass_first_interval),
        "Pass@All": _share(point.pass_all, point.pass_all_interval),
        "first p50": _seconds(point.first_finished_p50_s),
        "p95": _seconds(point.first_finished_p95_s),
        "answer p50": _seconds(point.answer_p50_s),
        "p95 ": _seconds(point.answer_p95_s),
        "over": f"{100 * point.over_budget:.0f} %",
        "tokens/s": point.tokens_per_s,
        "right/s": _rate(point),
        "others": "-" if point.lost_to_others is None else f"{100 * point.lost_to_others:.0f} %",
    }


def draw_quality(services: Mapping[str, Measured]) -> Iterator[str]:
    """A chart for the terminal: a bar of Pass@First for each service and rate."""
    for arm, service in services.items():
        for point in service.points.values():
            rate = "idle" if point.rate is None else f"{point.rate:g}"
            filled = round(BAR * point.pass_first)
            yield f"  {arm:<9} {rate:>6}  {'█' * filled}{'·' * (BAR - filled)} {100 * point.pass_first:.0f} %"


def figures(services: Mapping[str, Measured], budget_s: float) -> dict[str, float]:
    """Every point as flat names, the capacity of each service (0: below every tried rate), and the comparison."""
    found: dict[str, float] = {}
    for arm, measured in services.items():
        for rate, point in measured.points.items():
            at = f"{arm}.{'idle' if rate is None else f'r{rate:g}'}"
            found[f"{at}.pass_first"] = point.pass_first
            found[f"{at}.pass_all"] = point.pass_all
            found[f"{at}.right_in_time_per_s"] = point.right_in_time_per_s
            found[f"{at}.tokens_per_s"] = point.tokens_per_s
        if measured.loaded:
            service = measured.summarize(budget_s)
            shown = bound_capacity(against_idle(service.idle, service.tried))
            found[f"capacity.{arm}"] = service.capacity or 0.0
            found[f"capacity.{arm}.low"], found[f"capacity.{arm}.high"] = shown.low or 0.0, shown.high or 0.0
    if TOGETHER in services and ALONE in services:
        found |= _compare(services[TOGETHER], services[ALONE])
    return found


def sentences(
    services: Mapping[str, Measured],
    found: Mapping[str, float],
    budget_s: float,
    dataset: str = "",
    dataset_tasks: int | None = None,
) -> list[str]:
    """The figures in sentences, a line each."""
    loaded = {arm: one.summarize(budget_s, dataset, dataset_tasks) for arm, one in services.items() if one.loaded}
    lines = [f"{arm}: {describe_capacity(one)}" for arm, one in loaded.items()]
    if TOGETHER in loaded and ALONE in loaded:
        lines += describe_comparison(loaded[TOGETHER], loaded[ALONE])
    if (ratio := found.get("right_in_time.together_vs_alone")) is not None:
        rate = found["right_in_time.rate"]
        at_least = "" if found["right_in_time.alone"] else "at least "
        lines.append(
            f"at {rate:g} requests/s, the lowest rate where alone has less than half of its idle Pass@First, together "
            f"gives {at_least}{ratio:.2f} times the right answers in time{_ratio_interval(found)}"
        )
    for arm, measured in services.items():
        unclocked = max(point.unclocked_p95_s or 0.0 for point in measured.points.values())
        if unclocked > UNCLOCKED_S:
            lines.append(
                f"{arm}: the service's own times miss up to {unclocked:.1f} s of the wait for an answer (95th "
                "percentile), so its samples finished later than shown"
            )
    return lines


def _compare(together: Measured, alone: Measured) -> dict[str, float]:
    rates = [rate for rate in together.points if rate is not None and rate in alone.points]
    if not rates:
        return {}
    found: dict[str, float] = {}
    collapsed = collapse(alone.idle.pass_first, [one for one in alone.tried if one.rate in rates])
    if collapsed is not None:
        ours, theirs = (service.points[collapsed].right_in_time for service in (together, alone))
        found["right_in_time.rate"] = collapsed
        found["right_in_time.together"], found["right_in_time.alone"] = float(ours), float(theirs)
        # Without a right answer of the other the ratio is infinite; counting one for it gives a lower limit.
        found["right_in_time.together_vs_alone"] = ours / max(theirs, 1)
        of_prompts = [service.points[collapsed].by_prompt for service in (together, alone)]
        if theirs and of_prompts[0] is not None and of_prompts[1] is not None:
            low_end, high_end = compare_right(of_prompts[0], of_prompts[1], len(rates))
            found["right_in_time.together_vs_alone.low"] = low_end
            if math.isfinite(high_end):
                found["right_in_time.together_vs_alone.high"] = high_end
    low = low_rate(rates, collapsed)
    found["low_rate.rate"] = low
    for rate, compared in compare_rates(together.tried, alone.tried):
        for name in (f"r{rate:g}", "low_rate") if rate == low else (f"r{rate:g}",):
            found[f"{name}.pass_first_difference"] = compared.delta
            found[f"{name}.pass_first_difference.low"] = compared.low
            found[f"{name}.pass_first_difference.high"] = compared.high
    return found


def compare_arms(services: Mapping[str, Measured]) -> list[dict[str, Any]]:
    """Together minus alone at each rate, with the verdict, for JSON; [] unless both were measured."""
    if TOGETHER not in services or ALONE not in services:
        return []
    compared = compare_rates(services[TOGETHER].tried, services[ALONE].tried)
    return [{"rate": rate, **asdict(difference)} for rate, difference in compared]


def _ratio_interval(found: Mapping[str, float]) -> str:
    low = found.get("right_in_time.together_vs_alone.low")
    if low is None:
        return ""
    high = found.get("right_in_time.together_vs_alone.high")
    return f" (95 %, all rates together: {low:.2f} to {'no bound' if high is None else f'{high:.2f}'})"


def _share(value: float, interval: tuple[float, float]) -> str:
    return f"{100 * value:.0f} % ({100 * interval[0]:.0f} to {100 * interval[1]:.0f})"


def _rate(point: Point) -> str:
    """Right answers in time per second; the interval of Pass@First, times the requests of a second."""
    low, high = (bound * point.requests / point.window_s for bound in point.pass_first_interval)
    return f"{point.right_in_time_per_s:.3f} ({low:.3f} to {high:.3f})"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
