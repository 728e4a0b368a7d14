"""Whether a run is worse than another: the one place that decides it, for `runs compare` and the files it writes."""

from __future__ import annotations

from dataclasses import dataclass

from app.overlay.pair import RunComparison
from app.ui.units import counted, p_value, percent, points, seconds
from evaluation.inference import Comparison, least_discordant, mcnemar


@dataclass(frozen=True)
class Decision:
    """`worse` ends the command with 3. `title` is the conclusion, `sentence` what was tested and how it came out.

    `underpowered` ends it with 2: why no loss could be seen, and what to do; None where one could.
    """

    worse: bool
    title: str
    sentence: str
    underpowered: str | None = None


def decide(found: RunComparison) -> Decision:
    """By Pass@First at the budget: worse if B solves fewer tasks and McNemar's exact two-sided p is below the level.

    Where A solves so few tasks that losing all of them would not be significant, nothing is decided unless B is better.

    Pass@All is reported and decides nothing: two tests would find a difference by chance more often than 5 %.
    A difference that the speed of the machine could explain (app/overlay/caution.py) is not a finding either way.
    """
    first = found.first
    differing = len(first.wins) + len(first.losses)
    interval = f"95 % interval {points(first.low)} to {points(first.high)}"
    tested = (
        f"Pass@First at {seconds(found.budget_s)} over {counted(first.n_tasks, 'task')}: {percent(first.b)} -> "
        f"{percent(first.a)}, {points(first.delta)} points ({interval}). "
        f"McNemar's exact two-sided test on {counted(differing, 'task')} that only one run solves, "
        f"{len(first.wins)} won and {len(first.losses)} lost: {p_value(first.p)}"
    )
    if found.withheld_first is not None:
        return Decision(False, "Not decided: the clock does not allow it", f"{tested}, but {found.withheld_first}")
    if first.significant:
        return Decision(
            first.delta < 0, "Worse" if first.delta < 0 else "Better", f"{tested}, so chance does not explain it."
        )
    if (fault := _underpowered(first)) is not None:
        return Decision(False, "Not decided: A solves too few tasks", f"{tested}. {fault}", fault)
    return Decision(
        False,
        f"No worse as far as {counted(first.n_tasks, 'task')} can tell",
        f"{tested}. So many tasks reliably show only a difference of about {100 * first.detectable:.1f} points or more "
        "(80 % power).",
    )


def _underpowered(first: Comparison) -> str | None:
    """Why a loss of every task that A solves would not be significant, and what to do; None where it would be."""
    solved, needed = round(first.b * first.n_tasks), least_discordant(first.alpha)
    if solved >= needed:
        return None
    return (
        f"A solves {solved} of {counted(first.n_tasks, 'task')}: even if B lost all of them, p would be "
        f"{mcnemar(0, solved):.3f}. For a loss to be significant at {first.alpha:g}, A must solve at least {needed}: "
        "evaluate more tasks or more samples per task, give a larger budget, or test at a larger alpha."
    )
