"""What the comparison of two runs shows: one sentence per share, the tasks that differ, both curves and their gap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.charts.curves import Curve, difference, pass_curves
from app.charts.parts import Chart
from app.runs import presentation as shown
from app.runs.comparing import RunComparison, same_device
from app.runs.models import Run, RunTask
from app.units import points, seconds
from evaluation.statistics import Comparison, Crossover, crossover, difference_band

ALPHA = 0.05
LOST, WON, SAME = "lost", "won", "alike"


@dataclass(frozen=True)
class Share:
    """The comparison of Pass@First or Pass@All; B is `result.a`, the reference A is `result.b`."""

    label: str
    result: Comparison
    crossing: Crossover

    @property
    def p(self) -> str:
        """The p-value as read in a sentence."""
        return f"p = {self.result.p:.3f}" if self.result.p >= 0.001 else "p < 0.001"

    @property
    def sentence(self) -> str:
        """What the numbers allow one to say."""
        r = self.result
        if r.p < ALPHA:
            better = "B" if r.delta > 0 else "A"
            return f"{better} is better beyond chance: McNemar {self.p} over {r.n_tasks} tasks."
        seen = (
            f"{points(abs(r.delta)).lstrip('+')} points are below what {r.n_tasks} tasks can show; a"
            if abs(r.delta) < r.detectable
            else f"Over {r.n_tasks} tasks a"
        )
        return (
            f"No difference beyond chance: McNemar {self.p}. {seen} true difference would have to be about "
            f"{100 * r.detectable:.1f} points to be seen in four of five such comparisons."
        )

    @property
    def ahead_from(self) -> tuple[str, str]:
        """The crossover as read, and what goes with it."""
        found = self.crossing
        if found.budget_s is None:
            return "never", "B does not lead at the longest budget that both have"
        low, high = (seconds(at) if at < math.inf else "never" for at in (found.low, found.high))
        return seconds(found.budget_s), f"B leads from there on; 95 % between {low} and {high}"


@dataclass(frozen=True)
class Differing:
    """A task that the runs solve differently: what became of B, and the samples of both in finish order."""

    task_id: str
    first: str
    every: str
    a: list[shown.SampleSign]
    b: list[shown.SampleSign]


def shares(found: RunComparison, grid: Sequence[float]) -> list[Share]:
    """Pass@First and Pass@All, each with the budget from which B is ahead."""
    b, a = found.outcomes
    return [
        Share("Pass@First", found.first, crossover(b, a, grid)),
        Share("Pass@All", found.every, crossover(b, a, grid, None)),
    ]


def differing(found: RunComparison, of_a: Sequence[RunTask], of_b: Sequence[RunTask]) -> list[Differing]:
    """What B lost comes first: Pass@First, then Pass@All; then what it won."""
    samples = [
        {t.task.task_id: shown.in_finish_order(t.samples, found.budget_s) for t in tasks} for tasks in (of_a, of_b)
    ]
    lines = []
    for task_id in samples[1]:
        first, every = _outcome(task_id, found.first), _outcome(task_id, found.every)
        if (first, every) != (SAME, SAME):
            lines.append(Differing(task_id, first, every, samples[0].get(task_id, []), samples[1][task_id]))
    order = {LOST: 0, SAME: 1, WON: 2}
    return sorted(lines, key=lambda line: (order[line.first], order[line.every]))


def notes(a: Run, b: Run, found: RunComparison) -> list[str]:
    """What must be known before the figures are read."""
    out = []
    if not same_device(a, b):
        out.append(
            "The runs were measured on different devices or number formats: only shares can be compared, no times."
        )
    if a.throughput or b.throughput:
        which = "Both were" if a.throughput and b.throughput else "A was" if a.throughput else "B was"
        out.append(
            f"{which} decoded for throughput: times of tasks that share an engine, and shares by them, are later."
        )
    if a.n != b.n:
        out.append(f"A has n = {a.n} samples per task, B {b.n}: with more, Pass@All is higher by chance alone.")
    if (left := max(a.n_tasks, b.n_tasks) - found.first.n_tasks) > 0:
        out.append(f"{left} {'task' if left == 1 else 'tasks'} that only one of the runs has judged are left out.")
    return out


def curves(a: Run, b: Run, budget: float, crossing: Crossover) -> Chart:
    """Both runs' Pass@First and Pass@All, with the budget from which B is ahead on Pass@First."""
    lines = []
    for series, (run, name) in enumerate(((a, "A"), (b, "B"))):
        if run.curve is not None:
            lines.append(Curve(f"{name} First", run.curve.budgets, run.curve.pass_first, series))
            lines.append(Curve(f"{name} All", run.curve.budgets, run.curve.pass_all, series, "all"))
    return pass_curves(lines, "Both runs against the budget", budget=budget, marks=_mark(crossing))


def gap(found: RunComparison, grid: Sequence[float], crossing: Crossover) -> Chart:
    """B minus A in Pass@First at every budget, with the band of a paired bootstrap over tasks."""
    b, a = found.outcomes
    band = difference_band(b, a, grid)
    start = next((i for i, (low, high) in enumerate(zip(band.low, band.high, strict=True)) if low or high), 0)
    return difference(
        band.budgets[start:],
        band.delta[start:],
        band.low[start:],
        band.high[start:],
        "B minus A in Pass@First",
        budget=found.budget_s,
        marks=_mark(crossing),
    )


def _mark(crossing: Crossover) -> list[tuple[float, str]]:
    return [] if crossing.budget_s is None else [(crossing.budget_s, f"B ahead from {seconds(crossing.budget_s)}")]


def _outcome(task_id: str, result: Comparison) -> str:
    return WON if task_id in result.wins else LOST if task_id in result.losses else SAME
