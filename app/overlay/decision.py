"""Whether a run is worse than another: the one place that decides it, for `runs compare` and the files it writes."""

from __future__ import annotations

from pydantic import Field

from app.http.schemas import ResponseModel
from app.ui.units import counted, p_value, percent, points, seconds, size
from evaluation.inference import Comparison, least_discordant, mcnemar


class Conclusion(ResponseModel):
    """What `bassline runs compare --fail-if-worse` decides by: it ends with 3 for `worse`, 2 for `underpowered`."""

    underpowered: str | None = Field(
        description="`reference` solves so few tasks that no loss could be seen: why, and what to do"
    )
    worse: bool = Field(description="`other` solves fewer tasks in Pass@First, and chance does not explain it")
    title: str
    sentence: str = Field(description="what was tested and how it came out")


def decide(first: Comparison, withheld: str | None) -> Conclusion:
    """By Pass@First at the budget: worse if B solves fewer tasks and McNemar's exact two-sided p is below the level.

    Where A solves so few tasks that losing all of them would not be significant, nothing is decided unless B is better.

    Pass@All is reported and decides nothing: two tests would find a difference by chance more often than 5 %.
    A difference that the speed of the machine could explain (`withheld`, app/overlay/caution.py) is not a finding
    either way.
    """
    differing = len(first.wins) + len(first.losses)
    n = first.n_tasks
    interval = f"95 % interval {points(first.low, n)} to {points(first.high, n)}"
    tested = (
        f"Pass@First at {seconds(first.budget_s)} over {counted(first.n_tasks, 'task')}: {percent(first.b, n)} -> "
        f"{percent(first.a, n)}, {points(first.delta, n)} points ({interval}). "
        f"McNemar's exact two-sided test on {counted(differing, 'task')} that only one run solves, "
        f"{len(first.wins)} won and {len(first.losses)} lost: {p_value(first.p)}"
    )
    worse, fault = False, None
    if withheld is not None:
        title, sentence = "Not decided: the clock does not allow it", f"{tested}, but {withheld}"
    elif first.significant:
        worse = first.delta < 0
        title, sentence = "Worse" if worse else "Better", f"{tested}, so chance does not explain it."
    elif fault := _underpowered(first):
        title, sentence = "Not decided: A solves too few tasks", f"{tested}. {fault}"
    else:
        title = f"No worse as far as {counted(first.n_tasks, 'task')} can tell"
        sentence = (
            f"{tested}. So many tasks reliably show only a difference of about {size(first.detectable, n)} points or "
            "more (80 % power)."
        )
    return Conclusion(underpowered=fault, worse=worse, title=title, sentence=sentence)


def inferior(first: Comparison, margin: float) -> str | None:
    """Why B is not shown to be at most `margin` (a share of the tasks) below A; None where it is.

    The usual test of non-inferiority: the interval of the difference must lie above the margin as a whole.
    """
    if first.low > -margin:
        return None
    n = first.n_tasks
    return (
        f"B may be more than {size(margin, n)} points worse than A: the difference over {counted(n, 'task')} is "
        f"{points(first.delta, n)} points, and its 95 % interval reaches down to {points(first.low, n)}. Evaluate more "
        "tasks, or give a larger margin."
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
