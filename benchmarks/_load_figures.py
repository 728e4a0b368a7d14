"""From the settled requests of a load test to its table, its figures and its sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evaluation.load_comparison import describe_capacity, find_capacity
from evaluation.load_metrics import UNCLOCKED_S, LoadPoint

Rate = float | None  # None: idle
SERVICE = "service"  # begins the names of figures


@dataclass
class MeasuredService:
    """A service: its points by rate (None: idle), in the order in which they were measured."""

    points: dict[Rate, LoadPoint] = field(default_factory=dict)

    @property
    def idle(self) -> LoadPoint:
        """The service without load. KeyError before it was measured."""
        return self.points[None]

    @property
    def loaded(self) -> list[LoadPoint]:
        """The points under load, by rate, ascending."""
        return [self.points[rate] for rate in sorted(rate for rate in self.points if rate is not None)]


def build_row(point: LoadPoint) -> dict[str, Any]:
    """A line of the table: shares in per cent with their intervals, times in seconds."""
    return {
        "rate": "idle" if point.rate is None else f"{point.rate:g}",
        "requests": point.requests,
        "answered": point.answered,
        "refused": point.refused,
        "failed": point.failed,
        "Pass@First": _format_share(point.pass_first, point.pass_first_interval),
        "Pass@All": _format_share(point.pass_all, point.pass_all_interval),
        "first p50": _format_seconds(point.first_finished_p50_s),
        "p95": _format_seconds(point.first_finished_p95_s),
        "answer p50": _format_seconds(point.answer_p50_s),
        "p95 ": _format_seconds(point.answer_p95_s),  # the space makes a second key of the same heading
        "over": f"{100 * point.over_budget:.0f} %",
        "tokens/s": point.tokens_per_s,
        "right/s": _format_rate(point),
        "others": "-" if point.lost_to_others is None else f"{100 * point.lost_to_others:.0f} %",
    }


def compute_figures(measured: MeasuredService) -> dict[str, float]:
    """Every point as flat names, and the capacity of the service (0: below every tried rate)."""
    found: dict[str, float] = {}
    for rate, point in measured.points.items():
        at = f"{SERVICE}.{'idle' if rate is None else f'r{rate:g}'}"
        found[f"{at}.pass_first"] = point.pass_first
        found[f"{at}.pass_all"] = point.pass_all
        found[f"{at}.right_in_time_per_s"] = point.right_in_time_per_s
        found[f"{at}.tokens_per_s"] = point.tokens_per_s
    if measured.loaded:
        capacity = find_capacity(measured.idle, measured.loaded)
        found[f"capacity.{SERVICE}"] = capacity.estimate or 0.0
        found[f"capacity.{SERVICE}.low"] = capacity.low or 0.0
        found[f"capacity.{SERVICE}.high"] = capacity.high or 0.0
    return found


def build_sentences(measured: MeasuredService) -> list[str]:
    """What the service carries, and whether its own clock can be believed, a line each."""
    lines = [describe_capacity(measured.idle, measured.loaded)] if measured.loaded else []
    unclocked = max((point.unclocked_p95_s or 0.0 for point in measured.points.values()), default=0.0)
    if unclocked > UNCLOCKED_S:
        lines.append(
            f"the service's own times miss up to {unclocked:.1f} s of the wait for an answer (95th percentile), so its "
            "samples finished later than shown"
        )
    return lines


def _format_share(value: float, interval: tuple[float, float]) -> str:
    return f"{100 * value:.0f} % ({100 * interval[0]:.0f} to {100 * interval[1]:.0f})"


def _format_rate(point: LoadPoint) -> str:
    """Right answers in time per second; the interval of Pass@First, times the requests of a second."""
    low, high = (bound * point.requests / point.window_s for bound in point.pass_first_interval)
    return f"{point.right_in_time_per_s:.3f} ({low:.3f} to {high:.3f})"


def _format_seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
