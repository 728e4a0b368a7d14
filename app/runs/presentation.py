"""Values that the pages of a run show, computed from its rows: scores, task lines, timings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from app.core.states import PASSED
from app.runs.figures import is_finished
from app.runs.models import Run, RunTask
from app.runs.results import Figures
from app.samples.models import Sample
from app.web.ui.charts.chart import Chart, ChartCurve, draw_pass_curves
from app.web.ui.display import VerdictSign, choose_verdict_sign
from app.web.ui.units import (
    format_count,
    format_decimal,
    format_exact_seconds,
    format_integer,
    format_interval,
    format_milliseconds,
    format_percent,
    format_seconds,
    format_share,
    format_unsigned_points,
)
from evaluation import metrics
from evaluation.metrics import build_rank_key, compute_wilson_interval

SLOWEST = 10
SQUARES_OF_TASK = 48  # the first to finish
TASK_FILTERS = {
    "all": "All",
    "failed": "No sample passed",
    "missed": "Passed but not chosen",
    "passed": "Chosen sample passed",
    "waiting": "Not decoded",
}
"""The filters of the Tasks tab, with their labels."""
QUEUE = "queue"
STEPS = (
    (QUEUE, "Queue"),
    ("prefill", "Prefill"),
    ("draft", "Draft"),
    ("verify", "Verify"),
    ("other", "Other"),
    ("sandbox", "Sandbox"),
)


@dataclass(frozen=True)
class Score:
    """A figure on a card: its value as read, its unit, and a note (interval, formula, caveat)."""

    label: str
    value: str
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class SampleSquare:
    """A sample as one square; `label` is what a screen reader says."""

    row: Sample
    sign: VerdictSign
    chosen: bool
    label: str


@dataclass(frozen=True)
class SampleGroup:
    """Samples of a task with the same text and verdict, in finish order; the text is shown once."""

    members: list[SampleSquare]

    @property
    def best(self) -> SampleSquare:
        """The one shown: the chosen sample if it is among them, else the first to finish."""
        return next((s for s in self.members if s.chosen), self.members[0])


@dataclass(frozen=True)
class TaskLine:
    """A task of the run on the Tasks tab, within `budget_s`. Times in seconds since the engine took it up."""

    row: RunTask
    budget_s: float
    passes: bool  # whether any sample does
    chosen_passes: bool
    first_pass_s: float | None
    first_finished_s: float | None

    @cached_property
    def squares(self) -> list[SampleSquare]:
        """The first samples to finish. Built on first access: a run may have 100,000, and a page shows few tasks."""
        return build_squares(self.row.samples, self.budget_s, SQUARES_OF_TASK)

    @property
    def tokens(self) -> int | None:
        """Of all its samples."""
        return sum(s.n_tokens for s in self.row.samples) if self.row.samples else None


class TaskStep(NamedTuple):
    """One step of a task: its seconds, and their share of the work, None for the wait before it."""

    label: str
    value_s: float
    share: float | None


@dataclass(frozen=True)
class Timing:
    """Mean seconds per decoded task by step, with the cards and the slowest tasks of the Timing tab."""

    tasks: int
    steps: list[TaskStep]
    scores: list[Score]
    slowest: list[RunTask]


def is_finished_within(sample: Sample, budget_s: float = math.inf) -> bool:
    """Whether the sample finished within its run's budget and `budget_s` seconds; at an unknown time counts as well."""
    return is_finished(sample) and (sample.finished_s is None or sample.finished_s <= budget_s)


def choose_sample(samples: Sequence[Sample], budget_s: float = math.inf) -> Sample | None:
    """The finished sample that Pass@First counts; None if none finished."""
    finished = [sample for sample in samples if is_finished_within(sample, budget_s)]
    return max(finished, key=lambda sample: build_rank_key(sample.mean_logprob, sample.index), default=None)


def build_squares(
    samples: Sequence[Sample], budget_s: float = math.inf, max_squares: int | None = None
) -> list[SampleSquare]:
    """The first `max_squares` samples as squares in the order they finished; those not within `budget_s` come last."""
    best = choose_sample(samples, budget_s)
    ordered = sorted(samples, key=lambda s: (not is_finished_within(s, budget_s), s.finished_s or 0.0, s.index))
    squares = []
    for sample in ordered[:max_squares]:
        is_in_time = is_finished_within(sample, budget_s)
        sign = choose_verdict_sign(sample.verdict, finished=is_in_time)
        label = f"sample {sample.index}: {sign.name}"
        if is_in_time and sample.finished_s is not None:
            label += f" at {format_seconds(sample.finished_s)}"
        squares.append(SampleSquare(sample, sign, sample is best, label + (", chosen" if sample is best else "")))
    return squares


def group_samples(squares: Sequence[SampleSquare]) -> list[SampleGroup]:
    """Groups of samples with the same text, program, verdict and reason, in the order they finished."""
    found: dict[object, list[SampleSquare]] = {}
    for s in squares:
        row = s.row
        alike = (row.raw, row.program, s.sign, row.verdict, row.verdict_detail, row.got, row.trust)
        found.setdefault(alike, []).append(s)
    return [SampleGroup(members) for members in found.values()]


def rank_samples(squares: Sequence[SampleSquare]) -> dict[int, int]:
    """The rank of each finished sample by mean log-probability, from 1; keys are sample indices."""
    finished = [s.row for s in squares if is_finished(s.row)]
    ordered = sorted(finished, key=lambda s: build_rank_key(s.mean_logprob, s.index), reverse=True)
    return {sample.index: place for place, sample in enumerate(ordered, start=1)}


def build_task_lines(tasks: Sequence[RunTask], budget_s: float = math.inf) -> list[TaskLine]:
    """One line per task within `budget_s` seconds, in dataset order."""
    lines = []
    for task in tasks:
        finished = [s for s in task.samples if is_finished_within(s, budget_s)]
        passed = [s for s in finished if s.verdict == PASSED]
        best = choose_sample(finished, budget_s)
        lines.append(
            TaskLine(
                row=task,
                budget_s=budget_s,
                passes=bool(passed),
                chosen_passes=best is not None and best.verdict == PASSED,
                first_pass_s=min((s.finished_s for s in passed if s.finished_s is not None), default=None),
                first_finished_s=min((s.finished_s for s in finished if s.finished_s is not None), default=None),
            )
        )
    return lines


def group_task_lines(lines: Sequence[TaskLine]) -> dict[str, list[TaskLine]]:
    """The lines that each of TASK_FILTERS shows."""
    decoded = [line for line in lines if line.row.samples]
    return {
        "all": list(lines),
        "failed": [t for t in decoded if not t.passes],
        "missed": [t for t in decoded if t.passes and not t.chosen_passes],
        "passed": [t for t in decoded if t.chosen_passes],
        "waiting": [t for t in lines if not t.row.samples],
    }


def build_scores(curve: metrics.Curve, figures: Figures, budget: float) -> list[Score]:
    """The cards of the Curve tab: shares at `budget` seconds with Wilson's interval, then the speed of the run."""
    return [*_build_pass_scores(curve, figures, budget), *_build_speed_scores(figures)]


def _build_pass_scores(curve: metrics.Curve, figures: Figures, budget: float) -> list[Score]:
    """The shares of tasks that pass at `budget`, or pass@1 of samples that have no finish times."""
    n_tasks = figures.tasks
    if not curve.budgets or figures.pass_first is None:
        pass_at_1 = figures.pass_at_1
        note = f"{format_count(n_tasks, 'task')}, whenever the samples finished"
        return [] if pass_at_1 is None else [Score("pass@1", format_share(pass_at_1, n_tasks), "%", note)]
    first, every = curve.get_shares_at(budget)
    scores = []
    for label, share in (("Pass@First", first), ("Pass@All", every)):
        interval = format_interval(compute_wilson_interval(round(share * n_tasks), n_tasks), n_tasks)
        note = f"95 % interval {interval} %, {format_count(n_tasks, 'task')} at {format_exact_seconds(budget)}"
        scores.append(Score(label, format_share(share, n_tasks), "%", note))
    loss = format_unsigned_points(every - first, n_tasks)
    return [*scores, Score("Ranking loss", loss, "points", "Pass@All minus Pass@First")]


def _build_speed_scores(figures: Figures) -> list[Score]:
    scores = []
    if (p50 := figures.first_finished_p50_s) is not None:
        note = f"median; p95 {format_seconds(figures.first_finished_p95_s)}"
        scores.append(Score("First finished", *_split_unit(format_seconds(p50)), note))
    if (speed := figures.ms_per_token_all) is not None:
        first, last = map(format_milliseconds, (figures.ms_per_token_first, figures.ms_per_token_last))
        scores.append(Score("Time per token", format_milliseconds(speed), "ms", f"first {first}, last {last}"))
    if (length := figures.mean_acceptance_length) is not None:
        scores.append(Score("Accepted length", format_decimal(length), "tokens", "per sample and round"))
    if (gain := figures.speedup_over_plain) is not None:
        note = f"tokens per second against plain decoding, over {format_count(figures.speedup_tasks or 0, 'task')}"
        scores.append(Score("Speed-up", format_decimal(gain), "×", note))
    return scores


def build_timing(run: Run, tasks: Sequence[RunTask], figures: Figures) -> Timing | None:
    """The Timing tab; None before the first decoded task."""
    decoded = [t for t in tasks if t.wall_s is not None]
    if not decoded:
        return None
    slowest = sorted(decoded, key=lambda t: -(t.wall_s or 0.0))[:SLOWEST]
    return Timing(len(decoded), _compute_mean_steps(decoded), _build_timing_scores(run, decoded, figures), slowest)


def _build_timing_scores(run: Run, decoded: Sequence[RunTask], figures: Figures) -> list[Score]:
    walls = [t.wall_s or 0.0 for t in decoded]
    overrun_s = max(max(walls) - run.budget_s, 0.0)
    overrun_note = f"past the budget of {format_seconds(run.budget_s)}; a round that would pass it is not started"
    scores = [
        Score("Wall per task", *_split_unit(format_seconds(fmean(walls))), f"slowest {format_seconds(max(walls))}"),
        Score("Worst overrun", f"{1000 * overrun_s:.0f}", "ms", overrun_note),
    ]
    if (rate := figures.tokens_per_s) is not None:
        note = "all tasks of a batch" if run.throughput else "all samples of a task"
        scores.append(Score("Throughput", format_integer(rate), "tokens/s", note))
    if run.prefix_cache:
        cached = sum(t.cached_tokens or 0 for t in decoded)
        prompted = sum(t.n_prompt_tokens or 0 for t in decoded)
        share = format_percent(cached / prompted if prompted else None)
        note = f"{format_integer(cached)} of {format_integer(prompted)} prompt tokens"
        scores.append(Score("From the prefix cache", share, note=note))
    if rounds := [t.n_rounds for t in decoded if t.n_rounds is not None]:
        note = "mean per task; a round is draft, verify, accept"
        scores.append(Score("Rounds", format_decimal(fmean(rounds), 1), note=note))
    if memory := max(t.peak_memory_bytes or 0 for t in decoded):
        note = "of the device, highest over all tasks"
        scores.append(Score("Peak memory", format_decimal(memory / 2**30), "GiB", note))
    return scores


def draw_curve(curve: metrics.Curve, n_tasks: int, budget: float) -> Chart:
    """Pass@First with its interval, and Pass@All, with a cursor at `budget` seconds."""
    budgets, firsts = [0.0, *curve.budgets], [0.0, *curve.pass_first]  # before the first right answer it is 0 of n
    bounds = [compute_wilson_interval(round(share * n_tasks), n_tasks) for share in firsts]
    low, high = zip(*bounds, strict=True)
    return draw_pass_curves(
        [
            ChartCurve("Pass@First", budgets, firsts, low=low, high=high),
            ChartCurve("Pass@All", curve.budgets, curve.pass_all, kind="all"),
        ],
        "Pass@First and Pass@All against the budget",
        n_tasks,
        budget=budget,
    )


def list_steps(row: RunTask) -> list[TaskStep]:
    """Each step of one task in the order they happen; empty before it was decoded."""
    return [] if row.wall_s is None else _compute_mean_steps([row])


def _compute_mean_steps(decoded: Sequence[RunTask]) -> list[TaskStep]:
    """Mean seconds of each step, with its share of the work; the wait in the queue is none of it."""
    seconds_of = {name: fmean(getattr(t, name + "_s") or 0.0 for t in decoded) for name, _ in STEPS}
    work = sum(seconds for name, seconds in seconds_of.items() if name != QUEUE)
    return [
        TaskStep(label, seconds_of[name], None if name == QUEUE else seconds_of[name] / work if work else 0.0)
        for name, label in STEPS
    ]


def _split_unit(text: str) -> tuple[str, str]:
    value, _, unit = text.partition(" ")
    return value, unit
