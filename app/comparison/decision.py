"""Whether a run is worse than another: the one place that decides it, for `runs compare` and the files it writes."""

from __future__ import annotations

from dataclasses import dataclass

from app.comparison.caution import ALPHA
from app.comparison.comparing import RunComparison
from app.ui.units import percent, points, seconds


@dataclass(frozen=True)
class Decision:
    """`worse` ends the command with 3. `title` is the conclusion, `sentence` what was tested and how it came out."""

    worse: bool
    title: str
    sentence: str


def decide(found: RunComparison) -> Decision:
    """By Pass@First at the budget: worse if B solves fewer tasks and McNemar's exact two-sided p is below 5 %.

    Pass@All is reported and decides nothing: two tests would find a difference by chance more often than 5 %.
    A difference that the speed of the machine could explain (app/comparison/caution.py) is no finding either way.
    """
    first = found.first
    differing = len(first.wins) + len(first.losses)
    p = f"= {first.p:.3f}" if first.p >= 0.001 else "< 0.001"
    interval = f"95 % interval {points(first.low)} to {points(first.high)}"
    tested = (
        f"Pass@First at {seconds(found.budget_s)} over {_tasks(first.n_tasks)}: {percent(first.b)} -> "
        f"{percent(first.a)}, {points(first.delta)} points ({interval}). "
        f"McNemar's exact two-sided test on {_tasks(differing)} that only one run solves, {len(first.wins)} won and "
        f"{len(first.losses)} lost: p {p}"
    )
    if found.withheld_first is not None:
        return Decision(False, "Not decided: the clock does not allow it", f"{tested}, but {found.withheld_first}")
    if first.p < ALPHA:
        return Decision(
            first.delta < 0, "Worse" if first.delta < 0 else "Better", f"{tested}, so chance does not explain it."
        )
    return Decision(
        False,
        f"No worse as far as {_tasks(first.n_tasks)} can tell",
        f"{tested}. So many tasks reliably show only a difference of about {100 * first.detectable:.1f} points or more "
        "(80 % power).",
    )


def _tasks(number: int) -> str:
    return f"{number} {'task' if number == 1 else 'tasks'}"
