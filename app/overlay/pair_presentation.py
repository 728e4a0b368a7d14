"""Values that only an overlay of two runs shows: a sentence per share, times, the tasks that differ, and the gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.overlay.notes import caveats, same_device, trust_notes
from app.overlay.pair import RunComparison
from app.overlay.presentation import LABEL_ROOM, LineCurves, span
from app.runs import configuration
from app.runs import presentation as shown
from app.runs.models import Run
from app.runs.results import Figures
from app.studies.sentences import format_margin, format_tasks_to_decide
from app.ui.charts.curves import difference
from app.ui.units import count, counted, decimal, milliseconds, seconds
from evaluation.inference import Comparison, Crossover, crossover
from evaluation.metrics import BUDGET_GRID

OUTCOMES = {-1: "lost", 0: "alike", 1: "won"}
"""Of B at a task, by how much more than A it solves it."""


@dataclass(frozen=True)
class Differing:
    """A task that the runs solve differently: the outcome of B, and the samples of both in finish order."""

    task_id: str
    first: str
    every: str
    samples: list[list[shown.SampleSign]]


def page(compared: RunComparison, curves: Sequence[LineCurves]) -> dict[str, Any]:
    """What the template of a pair shows, given the curves of A and B over the common tasks."""
    found, runs = compared.found, compared.found.runs
    changes_at = sorted({budget for line in curves for budget in line.curve.budgets if budget <= found.longest_s})
    first, _ = found.measured.solved(changes_at)
    crossing = crossover(first[1], first[0], changes_at)
    marks = [] if crossing.budget_s is None else [(crossing.budget_s, f"B leads from {seconds(crossing.budget_s)}")]
    low, high = covered = span(curves, found.longest_s)
    inside = {x for x in (*BUDGET_GRID, compared.budget_s) if low < x < high}
    budgets = [low, *sorted(inside), high]
    band = [compared.band_first.decide(budget) for budget in budgets]
    return {
        "found": compared,
        "shares": (
            ("Pass@First", compared.decision_first, describe_pair(compared, 0)),
            ("Pass@All", compared.decision_all, describe_pair(compared, 1)),
        ),
        "ahead_from": _ahead_from(compared.pass_first, crossing),
        "span": covered,
        "marks": marks,
        "gap": difference(
            budgets,
            band,
            "B minus A in Pass@First",
            compared.pass_first.n_tasks,
            budget=compared.budget_s,
            marks=marks,
            label_room=LABEL_ROOM,
            series=curves[1].series,
        ),
        "changes": changes(*runs),
        "times": times(*runs),
        "same_device": same_device(runs),
        "tasks": differing(compared),
    }


def describe_pair(compared: RunComparison, figure: int) -> str:
    """What is shown about B and A in Pass@First (`figure` 0) or Pass@All (1), with the test at this budget alone."""
    found = (compared.pass_first, compared.pass_all)[figure]
    decision = (compared.decision_first, compared.decision_all)[figure]
    withheld = (compared.withheld_first, compared.withheld_all)[figure]
    n = found.n_tasks
    if withheld:
        return f"Undecided: the interval excludes 0, but {withheld}"
    if decision.verdict == "better":
        better, worse = "BA" if decision.a_is_better else "AB"
        return f"{better} is better than {worse}: chance does not explain the difference over {counted(n, 'task')}."
    if decision.verdict == "as_good":
        return f"B is as good as A within {format_margin(decision.margin)}, over {counted(n, 'task')}."
    said = f"Undecided over {counted(n, 'task')}."
    if decision.tasks_to_decide is None:
        return said
    needed, margin = format_tasks_to_decide(decision.tasks_to_decide), format_margin(decision.margin)
    return f"{said} About {needed} tasks would decide a difference of {margin}."


def _ahead_from(first: Comparison, crossing: Crossover) -> tuple[str, str]:
    """The budget of the crossover, and a note on it."""
    if crossing.budget_s is None and first.delta > 0:
        return "–", f"B leads at {seconds(first.budget_s)}, but not at the longest budget of both runs"
    if crossing.budget_s is None:
        return "never", "B does not lead at the longest budget of both runs"
    low, high = (seconds(at) if at < math.inf else "never" for at in (crossing.low, crossing.high))
    return seconds(crossing.budget_s), f"B leads from this budget on; 95 % interval {low} to {high}"


def differing(compared: RunComparison) -> list[Differing]:
    """Tasks that only A solves come first, by Pass@First, then by Pass@All; then those that only B solves."""
    found, columns = compared.found, compared.found.columns
    first, every = (of[1].astype(np.int64) - of[0] for of in found.measured.at(compared.budget_s))
    lines = []
    for task in sorted(np.flatnonzero(first | every), key=lambda task: (first[task], every[task])):
        signs = []
        for run in range(2):
            places = np.flatnonzero((columns.run == run) & (columns.task == task))
            rows: list[Any] = [
                found.samples[place] for place in places
            ]  # with the attributes of a Sample that it reads
            signs.append(shown.in_finish_order(rows, compared.budget_s))
        lines.append(Differing(found.task_ids[task], OUTCOMES[first[task]], OUTCOMES[every[task]], signs))
    return lines


def pair_caveats(compared: RunComparison) -> list[str]:
    """Caveats on the figures of the comparison."""
    return [*caveats(compared.found, not_in_turn(compared)), *trust_notes(compared.found)]


def not_in_turn(compared: RunComparison) -> str | None:
    """By how much the machine alone could have changed the times; None for runs that were measured in turn."""
    if compared.measured.in_turn:
        return None
    if compared.measured.machine_factor is None:
        return (
            "The runs were not measured in turn, and how busy the machine was is not known of both: times may differ "
            "because of the machine alone."
        )
    return (
        "The runs were not measured in turn: the machine alone could explain times that differ by a factor of up to "
        f"{decimal(compared.measured.machine_factor)}."
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
