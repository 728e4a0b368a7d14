"""Values that the pages of load tests show: charts over the rates, and the settings side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.capacity.documents import LoadTestDocument
from app.capacity.schemas import LoadPoint
from app.ui.charts.parts import Chart
from app.ui.charts.rates import RateLine, rate_chart
from app.ui.units import UNKNOWN, decimal, seconds

Get = Callable[[LoadPoint], float | None]


def charts(tests: Sequence[LoadTestDocument]) -> list[tuple[Chart, str]]:
    """(chart, what it shows in a sentence) for one load test, or for several laid over each other."""
    both = len(tests) > 1
    budgets = {test.settings.budget_s for test in tests}
    quality = [
        line
        for i, test in enumerate(tests)
        for line in (
            _line(test, i, "Pass@First", both, lambda p: p.pass_first, interval=True),
            _line(test, i, "Pass@All", both, lambda p: p.pass_all, dashed=True),
        )
    ]
    right = [_line(test, i, "right answers", both, lambda p: p.right_in_time_per_s) for i, test in enumerate(tests)]
    waits = _quantiles(tests, lambda p: p.first_finished_p50_s, lambda p: p.first_finished_p95_s)
    answers = _quantiles(tests, lambda p: p.answer_p50_s, lambda p: p.answer_p95_s)
    budget = budgets.pop() if len(budgets) == 1 else None
    idle = "The thin dashed lines are the values of the idle service."
    return [
        (
            rate_chart(quality, "Quality against load", "Share of requests", shares=True),
            f"Of all requests, those whose chosen sample is right in time, and those with any right one. {idle}",
        ),
        (
            rate_chart(right, "Right answers in time", "Per second", show=lambda v: decimal(v, 3)),
            f"Requests per second whose chosen sample is right within the budget. {idle}",
        ),
        (
            rate_chart(waits, "First finished sample", "Seconds", show=seconds, level=budget),
            "From when a request was due to its first finished sample, over the requests that have one."
            f"{_budget(budget)}",
        ),
        (
            rate_chart(answers, "Whole answer", "Seconds", show=seconds, level=budget),
            f"From when a request was due to its whole answer, over the answered requests.{_budget(budget)}",
        ),
    ]


def settings(tests: Sequence[LoadTestDocument]) -> list[tuple[str, list[str], bool]]:
    """(name, its value in each load test, whether they differ) of every setting."""
    rows: list[tuple[str, Callable[[LoadTestDocument], str]]] = [
        ("Service", lambda t: t.settings.arm),
        ("Target model", lambda t: t.settings.target),
        ("Drafter", lambda t: t.settings.drafter or "the service's default"),
        ("Samples per request", lambda t: str(t.settings.n)),
        ("Budget", lambda t: seconds(t.settings.budget_s)),
        ("Temperature", lambda t: f"{t.settings.temperature:g}"),
        ("Max tokens per sample", lambda t: str(t.settings.max_tokens)),
        ("Dataset", lambda t: f"{t.settings.dataset}, {t.settings.prompts} prompts"),
        ("sha256 of the dataset", lambda t: t.settings.dataset_sha256),
        ("Time per rate", lambda t: seconds(t.settings.duration_s)),
        ("Seed", lambda t: str(t.settings.seed)),
        ("Device", lambda t: t.settings.device),
        ("Machine", lambda t: _facts(t.settings.machine)),
        ("Versions", lambda t: _facts(t.settings.versions)),
    ]
    found = [(name, [value(test) for test in tests]) for name, value in rows]
    return [(name, values, len(set(values)) > 1) for name, values in found]


def caution(tests: Sequence[LoadTestDocument]) -> str:
    """Why two load tests do not compare; "" where they do, and for one alone."""
    names = ("target", "dataset_sha256", "prompts", "n", "budget_s", "duration_s", "seed", "device")
    differ = [name for name in names if len({str(getattr(test.settings, name)) for test in tests}) > 1]
    if not differ:
        return ""
    words = ", ".join(name.removesuffix("_s").removesuffix("_sha256").replace("_", " ") for name in differ)
    return f"They differ in more than the service: {words}. A difference between the curves may come from that."


def _quantiles(tests: Sequence[LoadTestDocument], p50: Get, p95: Get) -> list[RateLine]:
    return [
        line
        for i, test in enumerate(tests)
        for line in (
            _line(test, i, "median", len(tests) > 1, p50),
            _line(test, i, "95 % within", len(tests) > 1, p95, dashed=True),
        )
    ]


def _line(
    test: LoadTestDocument,
    series: int,
    figure: str,
    named: bool,
    get: Get,
    *,
    dashed: bool = False,
    interval: bool = False,
) -> RateLine:
    return RateLine(
        f"{test.name}: {figure}" if named else figure,
        [point.rate or 0.0 for point in test.points],
        [get(point) for point in test.points],
        series=series,
        dashed=dashed,
        low=[point.pass_first_interval[0] for point in test.points] if interval else None,
        high=[point.pass_first_interval[1] for point in test.points] if interval else None,
        idle=get(test.idle),
    )


def _budget(budget: float | None) -> str:
    return "" if budget is None else f" The budget is {seconds(budget)}, a thin dashed line."


def _facts(facts: dict[str, str | int]) -> str:
    words = (f"{name.removesuffix('_version').replace('_', ' ')} {value}" for name, value in facts.items())
    return ", ".join(words) or UNKNOWN
