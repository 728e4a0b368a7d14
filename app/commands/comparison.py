"""Two runs side by side, as `runs compare` prints them, and its exit code for continuous integration."""

from __future__ import annotations

from rich.console import Console

from app.commands.common import number, pairs
from app.errors import BasslineError
from app.overlay.pair import RunComparison
from app.ui.units import percent, points
from evaluation.decisions import PairDecision
from evaluation.inference import Comparison


class WorseError(BasslineError):
    """`--fail-if-worse`, and the verdict says so."""

    exit_code = 3


def comparison_tables(console: Console, found: RunComparison) -> None:
    """Prints the differences with their intervals, the options that differ, and the conclusion."""
    title = f"{found.other.name} against {found.reference.name} (baseline), at {found.budget_s:g} s"
    rows = [
        ("Pass@First", _difference(found.pass_first, found.decision_first)),
        ("Pass@All", _difference(found.pass_all, found.decision_all)),
    ]
    if found.speed is not None:
        rows.append(("tokens per second", number(found.speed, " x the baseline's", 2)))
    else:
        rows.append(("tokens per second", "not compared: the runs were made on different devices"))
    if not found.measured.in_turn:
        factor = found.measured.machine_factor
        words = number(factor, " x could be the machine alone", 2) if factor else "unknown"
        rows.append(("not measured in turn", f"times that differ by up to: {words}"))
    rows += [
        (f"{name}: undecided", reason)
        for name, reason in (("Pass@First", found.withheld_first), ("Pass@All", found.withheld_all))
        if reason
    ]
    console.print(pairs(title, rows))
    changed = [(name, f"{before} -> {after}") for name, (before, after) in found.changed.items()]
    console.print()
    console.print(pairs("Set differently", changed) if changed else "The settings are the same.")
    console.print()
    console.print(f"{found.conclusion.title}. {found.conclusion.sentence}", highlight=False)


def _difference(found: Comparison, decision: PairDecision) -> str:
    n = found.n_tasks
    return (
        f"{percent(found.b, n)} -> {percent(found.a, n)}, {points(found.delta, n)} points "
        f"(95 % interval {points(decision.low, n)} to {points(decision.high, n)}), "
        f"{len(found.wins)} wins, {len(found.losses)} losses, "
        f"p {found.p:.3f} at this budget alone"
    )
