"""Values that only an overlay of two runs shows: a sentence per share, times, the tasks that differ, and the gap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from app.overlay.notes import measurement_notes, same_device, sample_count_note, trust_notes
from app.overlay.pair import RunComparison
from app.runs import configuration
from app.runs import presentation as shown
from app.runs.models import Run
from app.runs.results import Figures
from app.ui.charts.curves import difference
from app.ui.charts.parts import Chart
from app.ui.units import count, counted, decimal, milliseconds, points, seconds
from evaluation.inference import Comparison, Crossover, crossover, difference_band
from evaluation.metrics import BUDGET_GRID, curve

Marks = list[tuple[float, str]]
"""Budgets and their words, for charts."""

LETTERS = ("A", "B")
LABEL_ROOM = 176  # pixels beside a chart whose curves have names
LOST, WON, SAME = "lost", "won", "alike"


@dataclass(frozen=True)
class PairShare:
    """The comparison of Pass@First or Pass@All; B is `result.a`, the baseline run A is `result.b`."""

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
        return seconds(found.budget_s), f"B leads from this budget on; 95 % interval {low} to {high}"


@dataclass(frozen=True)
class Differing:
    """A task that the runs solve differently: the outcome of B, and the samples of both in finish order."""

    task_id: str
    first: str
    every: str
    a: list[shown.SampleSign]
    b: list[shown.SampleSign]


@dataclass(frozen=True)
class PairPage:
    """What a page shows of two runs beside their overlay. `found` has the figures."""

    found: RunComparison
    shares: list[PairShare]
    span: tuple[float, float]
    """The seconds that both charts cover."""
    marks: Marks
    """The budget from which B leads in Pass@First."""
    gap: Chart
    changes: list[tuple[str, object, object]]
    times: list[tuple[str, str, str]]
    same_device: bool
    tasks: list[Differing]
    not_in_turn: str | None
    trust: list[str]


def page(found: RunComparison, span: tuple[float, float], series: int) -> PairPage:
    """The page's values; `span` are the seconds that charts cover, `series` is B's."""
    runs = (found.baseline, found.other)
    of_figures = shares(found)
    marks = _marks(of_figures[0].crossing)
    return PairPage(
        found=found,
        shares=of_figures,
        span=span,
        marks=marks,
        gap=gap(found, span, marks, series),
        changes=changes(*runs),
        times=times(*runs),
        same_device=same_device(runs),
        tasks=differing(found),
        not_in_turn=not_in_turn(found),
        trust=trust_notes(runs, LETTERS),
    )


def shares(found: RunComparison) -> list[PairShare]:
    """Pass@First and Pass@All, each with the budget from which B is ahead up to the shorter budget of the runs."""
    a, b = found.outcomes
    longest_s = min(found.baseline.budget_s, found.other.budget_s)
    common = {o.task_id for o in a} & {o.task_id for o in b}
    both = [curve([o for o in of_run if o.task_id in common], longest_s) for of_run in (a, b)]
    changes = sorted({budget for of_run in both for budget in of_run.budgets})
    return [
        PairShare("Pass@First", found.first, crossover(b, a, changes), found.withheld_first),
        PairShare("Pass@All", found.every, crossover(b, a, changes, None), found.withheld_every),
    ]


def differing(found: RunComparison) -> list[Differing]:
    """Tasks that only A solves come first, by Pass@First, then by Pass@All; then those that only B solves."""
    of_a, of_b = (
        {task.task.task_id: shown.in_finish_order(task.samples, found.budget_s) for task in tasks}
        for tasks in found.tasks
    )
    outcomes = ((task_id, _outcome(task_id, found.first), _outcome(task_id, found.every)) for task_id in of_b)
    lines = [Differing(*one, of_a.get(one[0], []), of_b[one[0]]) for one in outcomes if one[1:] != (SAME, SAME)]
    order = {LOST: 0, SAME: 1, WON: 2}
    return sorted(lines, key=lambda line: (order[line.first], order[line.every]))


def notes(found: RunComparison) -> list[str]:
    """Caveats on the figures of the comparison."""
    runs = (found.baseline, found.other)
    left = max(run.n_tasks for run in runs) - found.first.n_tasks
    words = f"{left} {'task is' if left == 1 else 'tasks are'} left out: only one of the runs has graded them."
    return [
        *measurement_notes(runs, LETTERS, not_in_turn(found)),
        *sample_count_note(runs, LETTERS),
        *([words] if left > 0 else []),
        *trust_notes(runs, LETTERS),
    ]


def not_in_turn(found: RunComparison) -> str | None:
    """By how much the machine alone could have changed the times; None for runs that were measured in turn."""
    if found.in_turn:
        return None
    if found.machine_factor is None:
        return (
            "The runs were not measured in turn, and how busy the machine was is not known of both: times may differ "
            "because of the machine alone."
        )
    return (
        "The runs were not measured in turn: the machine alone could explain times that differ by a factor of up to "
        f"{decimal(found.machine_factor)}."
    )


def changes(a: Run, b: Run) -> list[tuple[str, object, object]]:
    """(label, A's, B's) of everything that was set or measured with differently."""
    pairs = zip(configuration.table(a), configuration.table(b), strict=True)
    changed: list[tuple[str, object, object]] = [(label, x, y) for (label, x), (_, y) in pairs if x != y]
    measured = ((key.replace("_", " ").capitalize(), x, y) for key, x, y in measured_with(a, b))
    return changed + [line for line in measured if line not in changed]


def measured_with(a: Run, b: Run) -> list[tuple[str, object, object]]:
    """What the engines report of themselves, where it differs: models, versions, device, commit."""
    keys = sorted({*a.provenance, *b.provenance})
    return [(k, a.provenance.get(k), b.provenance.get(k)) for k in keys if a.provenance.get(k) != b.provenance.get(k)]


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


def gap(found: RunComparison, covered: tuple[float, float], marks: Marks, series: int) -> Chart:
    """B minus A in Pass@First at round budgets, with the band of a paired bootstrap over tasks."""
    a, b = found.outcomes
    low, high = covered
    band = difference_band(b, a, [low, *(x for x in BUDGET_GRID if low < x < high), high])
    return difference(
        band.budgets,
        band.delta,
        band.low,
        band.high,
        "B minus A in Pass@First",
        budget=found.budget_s,
        marks=marks,
        label_room=LABEL_ROOM,
        series=series,
    )


def _marks(crossing: Crossover) -> Marks:
    start = crossing.budget_s
    return [] if start is None else [(start, f"B leads from {seconds(start)}")]


def _outcome(task_id: str, result: Comparison) -> str:
    return WON if task_id in result.wins else LOST if task_id in result.losses else SAME
