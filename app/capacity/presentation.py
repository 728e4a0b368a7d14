"""Values that the pages of load tests show: charts over the rates, and the settings side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.capacity.documents import LoadTestDocument, summarize
from app.capacity.schemas import LoadPoint
from app.ui.charts.lines import Line, rate_chart
from app.ui.charts.parts import Chart
from app.ui.units import UNKNOWN, decimal, seconds
from evaluation.load_sentences import describe_comparison

SAME_PROMPTS = ("dataset_sha256", "prompts", "budget_s", "seed")
"""The settings in which two load tests must agree to be compared prompt by prompt."""


@dataclass(frozen=True)
class RateFigure:
    """A figure of a point as a line of a chart, with its interval where it has one."""

    label: str
    get: Callable[[LoadPoint], float | None]
    dashed: bool = False
    interval: Callable[[LoadPoint], tuple[float, float]] | None = None


def short_names(tests: Sequence[LoadTestDocument]) -> list[str]:
    """The distinguishing parts of the names of load tests: the parts of a name (`model, n = 4, together`) that are not
    in all of them."""
    names = [test.name for test in tests]
    parts = [name.split(", ") for name in names]
    if len(names) < 2 or len({len(words) for words in parts}) > 1:
        return names
    kept = [i for i, words in enumerate(zip(*parts, strict=True)) if len(set(words)) > 1]
    return [", ".join(words[i] for i in kept) for words in parts] if kept else names


def charts(tests: Sequence[LoadTestDocument]) -> list[tuple[Chart, str]]:
    """(chart, what it shows in a sentence) for one load test, or for several overlaid."""
    budgets = {test.settings.budget_s for test in tests}
    quality = _lines(
        tests,
        RateFigure("Pass@First", lambda p: p.pass_first, interval=lambda p: p.pass_first_interval),
        RateFigure("Pass@All", lambda p: p.pass_all, dashed=True, interval=lambda p: p.pass_all_interval),
    )
    right = _lines(tests, RateFigure("right answers", lambda p: p.right_in_time_per_s, interval=_right_per_s))
    waits = _lines(
        tests,
        RateFigure("median", lambda p: p.first_finished_p50_s),
        RateFigure("95 % within", lambda p: p.first_finished_p95_s, dashed=True),
    )
    answers = _lines(
        tests,
        RateFigure("median", lambda p: p.answer_p50_s),
        RateFigure("95 % within", lambda p: p.answer_p95_s, dashed=True),
    )
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
        ("Prompt mode", lambda t: t.settings.prompt_mode),
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


def comparison(tests: Sequence[LoadTestDocument]) -> list[str]:
    """Which of two load tests over the same prompts carries more, and a sentence for each rate; [] for other ones."""
    if len(tests) != 2 or any(_differ(tests, name) for name in SAME_PROMPTS):
        return []
    names = short_names(tests)
    a, b = (summarize(name, one.settings, one.idle, one.points) for name, one in zip(names, tests, strict=True))
    return describe_comparison(a, b)


def caution(tests: Sequence[LoadTestDocument]) -> str:
    """Why two load tests are not comparable; "" if they are, and for one alone."""
    names = ("target", "dataset_sha256", "prompts", "n", "budget_s", "prompt_mode", "duration_s", "seed", "device")
    differ = [name for name in names if _differ(tests, name)]
    if not differ:
        return ""
    words = ", ".join(name.removesuffix("_s").removesuffix("_sha256").replace("_", " ") for name in differ)
    return f"They differ in more than the service: {words}. A difference between the curves may come from that."


def _differ(tests: Sequence[LoadTestDocument], name: str) -> bool:
    return len({str(getattr(test.settings, name)) for test in tests}) > 1


def _lines(tests: Sequence[LoadTestDocument], *figures: RateFigure) -> list[Line]:
    """A line for each figure of each load test; each load test has its colour."""
    lines = []
    for series, (test, name) in enumerate(zip(tests, short_names(tests), strict=True)):
        for figure in figures:
            bounds = [figure.interval(point) for point in test.points] if figure.interval else None
            lines.append(
                Line(
                    f"{name}: {figure.label}" if len(tests) > 1 else figure.label,
                    [point.rate or 0.0 for point in test.points],
                    [figure.get(point) for point in test.points],
                    series=series,
                    dash=2 if figure.dashed else 1,
                    low=[low for low, _ in bounds] if bounds else None,
                    high=[high for _, high in bounds] if bounds else None,
                    idle=figure.get(test.idle),
                )
            )
    return lines


def _right_per_s(point: LoadPoint) -> tuple[float, float]:
    low, high = point.pass_first_interval
    return low * point.requests / point.window_s, high * point.requests / point.window_s


def _budget(budget: float | None) -> str:
    return "" if budget is None else f" The budget is {seconds(budget)}, a thin dashed line."


def _facts(facts: dict[str, str | int]) -> str:
    words = (f"{name.removesuffix('_version').replace('_', ' ')} {value}" for name, value in facts.items())
    return ", ".join(words) or UNKNOWN
