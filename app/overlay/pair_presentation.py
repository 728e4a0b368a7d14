"""Values that only an overlay of two runs shows: a sentence per share, times, the tasks that differ, and the gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.overlay.notes import measurement_notes, same_device, sample_count_note, trust_notes
from app.overlay.pair import RunComparison
from app.overlay.presentation import LABEL_ROOM, LineCurves, span
from app.runs import configuration
from app.runs import presentation as shown
from app.runs.models import Run
from app.runs.results import Figures
from app.ui.charts.curves import difference
from app.ui.charts.parts import Chart
from app.ui.units import count, counted, decimal, milliseconds, p_value, points, seconds
from evaluation.inference import Comparison, Crossover, crossover, difference_band
from evaluation.metrics import BUDGET_GRID

LETTERS = ("A", "B")
LOST, WON, SAME = "lost", "won", "alike"


@dataclass(frozen=True)
class Differing:
    """A task that the runs solve differently: the outcome of B, and the samples of both in finish order."""

    task_id: str
    first: str
    every: str
    a: list[shown.SampleSign]
    b: list[shown.SampleSign]


def page(found: RunComparison, curves: Sequence[LineCurves]) -> dict[str, Any]:
    """What the template of a pair shows, given the curves of A and B over the common tasks."""
    runs = (found.baseline, found.other)
    longest_s = min(run.budget_s for run in runs)
    a, b = found.outcomes
    changes_at = sorted({budget for line in curves for budget in line.curve.budgets if budget <= longest_s})
    crossing = crossover(b, a, changes_at)
    marks = [] if crossing.budget_s is None else [(crossing.budget_s, f"B leads from {seconds(crossing.budget_s)}")]
    covered = span(curves, longest_s)
    return {
        "found": found,
        "shares": (("Pass@First", found.first), ("Pass@All", found.every)),
        "first": sentence(found.first, found.withheld_first),
        "every": sentence(found.every, found.withheld_every),
        "ahead_from": _ahead_from(found.first, crossing),
        "span": covered,
        "marks": marks,
        "gap": gap(found, covered, marks, curves[1].series),
        "changes": changes(*runs),
        "times": times(*runs),
        "same_device": same_device(runs),
        "tasks": differing(found),
        "trust": trust_notes(runs, LETTERS),
    }


def sentence(found: Comparison, withheld: str | None) -> str:
    """What the test supports. `withheld` is why neither run may be called better although p is below the level."""
    tested = f"McNemar {p_value(found.p)} over {counted(found.n_tasks, 'task')}"
    if withheld:
        return f"Undecided: {tested}, but {withheld}"
    if found.significant:
        return f"{'B' if found.delta > 0 else 'A'} is better, and chance does not explain it: {tested}."
    return (
        f"No difference beyond chance: {tested}. This many tasks reliably show only differences of about "
        f"{100 * found.detectable:.1f} points or more (80 % power); this one is {points(abs(found.delta)).lstrip('+')}."
    )


def _ahead_from(first: Comparison, crossing: Crossover) -> tuple[str, str]:
    """The budget of the crossover, and a note on it."""
    if crossing.budget_s is None and first.delta > 0:
        return "–", f"B leads at {seconds(first.budget_s)}, but not at the longest budget of both runs"
    if crossing.budget_s is None:
        return "never", "B does not lead at the longest budget of both runs"
    low, high = (seconds(at) if at < math.inf else "never" for at in (crossing.low, crossing.high))
    return seconds(crossing.budget_s), f"B leads from this budget on; 95 % interval {low} to {high}"


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


def gap(found: RunComparison, covered: tuple[float, float], marks: Sequence[tuple[float, str]], series: int) -> Chart:
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


def _outcome(task_id: str, result: Comparison) -> str:
    return WON if task_id in result.wins else LOST if task_id in result.losses else SAME
