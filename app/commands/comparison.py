"""Two runs side by side, as `runs compare` prints them."""

from __future__ import annotations

from rich.console import Console

from app.commands.common import number, pairs, percent
from app.comparison.comparing import RunComparison
from evaluation.inference import Comparison


def comparison_tables(console: Console, found: RunComparison) -> None:
    """Prints the differences with their intervals, then what was set differently."""
    title = f"{found.other.name} against {found.reference.name} (reference), at {found.budget_s:g} s"
    rows = [("Pass@First", _difference(found.first)), ("Pass@All", _difference(found.every))]
    if found.speed is not None:
        rows.append(("tokens per second", number(found.speed, " x the reference's", 2)))
    else:
        rows.append(("tokens per second", "not compared: the runs were made on different devices"))
    console.print(pairs(title, rows))
    changed = [(name, f"{before} -> {after}") for name, (before, after) in found.changed.items()]
    console.print()
    console.print(pairs("Set differently", changed) if changed else "The settings are the same.")


def _difference(found: Comparison) -> str:
    return (
        f"{percent(found.b)} -> {percent(found.a)}, {100 * found.delta:+.1f} points "
        f"(95 % interval {100 * found.low:+.1f} to {100 * found.high:+.1f}), "
        f"{len(found.wins)} wins, {len(found.losses)} losses, "
        f"p {found.p:.3f}; {found.n_tasks} tasks can show {100 * found.detectable:.1f} points"
    )
