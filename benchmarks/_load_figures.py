"""From the settled requests of a load test to its table, its figures and its sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks._load_service import ALONE, TOGETHER
from evaluation.load_metrics import (
    UNCLOCKED_S,
    LoadedRequest,
    Point,
    RateResult,
    capacity,
    collapse,
    difference,
    low_rate,
    sentence,
)

Rate = float | None  # None: idle


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
        """The rates with their Pass@First."""
        return [RateResult(point.rate, point.pass_first) for point in self.loaded if point.rate is not None]

    @property
    def capacity(self) -> float | None:
        """The highest tried rate at which the service keeps its quality; None where none is."""
        return capacity(self.idle.pass_first, self.tried)


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
        "right/s": f"{point.right_in_time_per_s:.3f}",
        "others": "-" if point.lost_to_others is None else f"{100 * point.lost_to_others:.0f} %",
    }


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
            found[f"capacity.{arm}"] = measured.capacity or 0.0
    if TOGETHER in services and ALONE in services:
        found |= _compared(services[TOGETHER], services[ALONE], budget_s)
    return found


def sentences(services: Mapping[str, Measured], found: Mapping[str, float]) -> list[str]:
    """The figures in sentences, a line each."""
    lines = [f"{arm}: {sentence(one.idle.pass_first, one.tried)}" for arm, one in services.items() if one.loaded]
    if (ratio := found.get("right_in_time.together_vs_alone")) is not None:
        rate = found["right_in_time.rate"]
        at_least = "" if found["right_in_time.alone"] else "at least "
        lines.append(
            f"at {rate:g} requests/s, the lowest rate where alone has less than half of its idle Pass@First, together "
            f"gives {at_least}{ratio:.2f} times the right answers in time"
        )
    if "low_rate.pass_first_difference" in found:
        shown = [100 * found[f"low_rate.pass_first_difference{end}"] for end in ("", ".low", ".high")]
        lines.append(
            f"at {found['low_rate.rate']:g} requests/s Pass@First of together minus alone is {shown[0]:+.1f} points "
            f"(95 %: {shown[1]:+.1f} to {shown[2]:+.1f}), paired by request"
        )
    for arm, measured in services.items():
        unclocked = max(point.unclocked_p95_s or 0.0 for point in measured.points.values())
        if unclocked > UNCLOCKED_S:
            lines.append(
                f"{arm}: the service's own times miss up to {unclocked:.1f} s of the wait for an answer (95th "
                "percentile), so its samples finished later than shown"
            )
    return lines


def _compared(together: Measured, alone: Measured, budget_s: float) -> dict[str, float]:
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
    low = low_rate(rates, collapsed)
    compared = difference(together.asked[low], alone.asked[low], budget_s)
    found["low_rate.rate"] = low
    found["low_rate.pass_first_difference"] = compared.delta
    found["low_rate.pass_first_difference.low"] = compared.low
    found["low_rate.pass_first_difference.high"] = compared.high
    return found


def _share(value: float, interval: tuple[float, float]) -> str:
    return f"{100 * value:.0f} % ({100 * interval[0]:.0f} to {100 * interval[1]:.0f})"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
