"""Values that the comparison of two runs shows: a sentence per share, times, the tasks that differ, curves and gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.comparison.comparing import RunComparison, same_device
from app.runs import presentation as shown
from app.runs.models import Run, RunTask
from app.runs.results import Figures
from app.ui.charts.curves import BEFORE_RISE, Curve, difference, pass_curves
from app.ui.charts.parts import Chart
from app.ui.units import count, counted, decimal, milliseconds, points, seconds
from evaluation.inference import Comparison, Crossover, crossover, difference_band
from evaluation.metrics import BUDGET_GRID, curve

LOST, WON, SAME = "lost", "won", "alike"


@dataclass(frozen=True)
class Share:
    """The comparison of Pass@First or Pass@All; B is `result.a`, the reference A is `result.b`."""

    label: str
    result: Comparison
    crossing: Crossover
    withheld: str | None

    @property
    def p(self) -> str:
        """The p-value as read in a sentence."""
        return f"p = {self.result.p:.3f}" if self.result.p >= 0.001 else "p < 0.001"

    @property
    def sentence(self) -> str:
        """The conclusion that the test supports."""
        r = self.result
        tasks = counted(r.n_tasks, "task")
        if self.withheld:
            return f"Undecided: McNemar {self.p} over {tasks}, but {self.withheld}"
        if r.significant:
            better = "B" if r.delta > 0 else "A"
            return f"{better} is better, and chance does not explain it: McNemar {self.p} over {tasks}."
        return (
            f"No difference beyond chance: McNemar {self.p} over {tasks}. "
            f"This many tasks reliably show only differences of about {100 * r.detectable:.1f} points or more "
            f"(80 % power); this one is {points(abs(r.delta)).lstrip('+')}."
        )

    @property
    def ahead_from(self) -> tuple[str, str]:
        """The budget of the crossover, and a note on it."""
        found = self.crossing
        if found.budget_s is None and self.result.delta > 0:
            return "–", f"B leads at {seconds(self.result.budget_s)}, but not at the longest budget of both runs"
        if found.budget_s is None:
            return "never", "B does not lead at the longest budget of both runs"
        low, high = (seconds(at) if at < math.inf else "never" for at in (found.low, found.high))
        return seconds(found.budget_s), f"B leads from this budget on; 95 % between {low} and {high}"


@dataclass(frozen=True)
class Differing:
    """A task that the runs solve differently: the outcome of B, and the samples of both in finish order."""

    task_id: str
    first: str
    every: str
    a: list[shown.SampleSign]
    b: list[shown.SampleSign]


def shares(found: RunComparison, longest_s: float) -> list[Share]:
    """Pass@First and Pass@All, each with the budget from which B is ahead up to `longest_s` seconds."""
    b, a = found.outcomes
    common = {o.task_id for o in b} & {o.task_id for o in a}
    both = [curve([o for o in of_run if o.task_id in common], longest_s) for of_run in (b, a)]
    changes = sorted({budget for of_run in both for budget in of_run.budgets})
    return [
        Share("Pass@First", found.first, crossover(b, a, changes), found.withheld_first),
        Share("Pass@All", found.every, crossover(b, a, changes, None), found.withheld_every),
    ]


def differing(found: RunComparison, of_a: Sequence[RunTask], of_b: Sequence[RunTask]) -> list[Differing]:
    """Tasks that only A solves come first, by Pass@First, then by Pass@All; then those that only B solves."""
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
    """Caveats on the figures of the comparison."""
    out = []
    if not same_device(a, b):
        out.append("The runs used different devices or number formats: only shares can be compared, not times.")
    if a.throughput or b.throughput:
        which = "Both were" if a.throughput and b.throughput else "A was" if a.throughput else "B was"
        out.append(f"{which} decoded for throughput: tasks shared a batch, so each of their samples finished later.")
    if a.n != b.n:
        out.append(f"A has {a.n} samples per task, B has {b.n}: more samples raise Pass@All by chance alone.")
    if (left := max(a.n_tasks, b.n_tasks) - found.first.n_tasks) > 0:
        out.append(f"{left} {'task is' if left == 1 else 'tasks are'} left out: only one of the runs has graded them.")
    if not found.in_turn and same_device(a, b):
        out.append(_not_in_turn(found))
    for name, run in (("A", a), ("B", b)):
        out += [f"{name}: {mark}" for mark in run.measured.clock_marks or ()]
        if guests := run.measured.in_guest_samples:
            passed = run.measured.in_guest_passed or 0
            out.append(
                f"{guests} verdicts of {name} were given in-guest, where a program can forge its verdict; "
                f"{passed} of them passed."
            )
    return out


def _not_in_turn(found: RunComparison) -> str:
    if found.machine_factor is None:
        return (
            "The runs were not measured in turn, and how busy the machine was is not known of both: times may differ "
            "because of the machine alone."
        )
    return (
        "The runs were not measured in turn: the machine alone could explain times that differ by a factor of up to "
        f"{decimal(found.machine_factor)}."
    )


def usual_budget(a: Run, b: Run) -> float:
    """The default budget: by then the slower run has a finished sample for half of its tasks.

    It does not depend on which run is better, so that the test at it stays valid; at the longest budget curves are
    flat. A round number of seconds, at most the shorter budget of the two.
    """
    longest = min(a.budget_s, b.budget_s)
    medians = [run.measured.first_finished_p50_s for run in (a, b)]
    slower = max((m for m in medians if m is not None), default=longest)
    return min(next((x for x in BUDGET_GRID if x >= slower), longest), longest)


def times(a: Run, b: Run) -> list[tuple[str, str, str]]:
    """Figure, A's and B's, of how fast each run was up to its own budget."""
    rows: list[tuple[str, Callable[[Figures], float | None], Callable[[float | None], str]]] = [
        ("First finished sample, median", lambda f: f.first_finished_p50_s, seconds),
        ("First finished sample, 95th percentile", lambda f: f.first_finished_p95_s, seconds),
        ("ms per token, first to finish", lambda f: f.ms_per_token_first, milliseconds),
        ("ms per token, last to finish", lambda f: f.ms_per_token_last, milliseconds),
        ("ms per token, all samples", lambda f: f.ms_per_token_all, milliseconds),
        ("Tokens per second", lambda f: f.tokens_per_s, count),
        ("Accepted length, tokens", lambda f: f.mean_acceptance_length, decimal),
    ]
    return [(label, text(figure(a.measured)), text(figure(b.measured))) for label, figure, text in rows]


def span(*runs: Run) -> tuple[float, float]:
    """The seconds that both charts cover: from just below where the first curve rises to the shorter budget."""
    longest = min(run.budget_s for run in runs)
    rises = [
        budget
        for run in runs
        if run.curve is not None
        for budget, share in zip(run.curve.budgets, run.curve.pass_all, strict=True)
        if share > 0
    ]
    first = min([*rises, longest])
    return max((x for x in BUDGET_GRID if x < first), default=BEFORE_RISE * first), longest


def curves(a: Run, b: Run, budget: float, crossing: Crossover, covered: tuple[float, float]) -> Chart:
    """Both runs' Pass@First and Pass@All, with the budget from which B is ahead on Pass@First."""
    lines = []
    for series, (run, name) in enumerate(((a, "A"), (b, "B"))):
        if run.curve is not None:
            lines.append(Curve(f"{name} First", run.curve.budgets, run.curve.pass_first, series))
            lines.append(Curve(f"{name} All", run.curve.budgets, run.curve.pass_all, series, "all"))
    return pass_curves(lines, "Both runs against the budget", budget=budget, marks=_mark(crossing), span=covered)


def gap(found: RunComparison, crossing: Crossover, covered: tuple[float, float]) -> Chart:
    """B minus A in Pass@First at round budgets, with the band of a paired bootstrap over tasks."""
    b, a = found.outcomes
    low, high = covered
    band = difference_band(b, a, [low, *(x for x in BUDGET_GRID if low < x < high), high])
    return difference(
        band.budgets,
        band.delta,
        band.low,
        band.high,
        "B minus A in Pass@First",
        budget=found.budget_s,
        marks=_mark(crossing),
    )


def _mark(crossing: Crossover) -> list[tuple[float, str]]:
    return [] if crossing.budget_s is None else [(crossing.budget_s, f"B leads from {seconds(crossing.budget_s)}")]


def _outcome(task_id: str, result: Comparison) -> str:
    return WON if task_id in result.wins else LOST if task_id in result.losses else SAME
