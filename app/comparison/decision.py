"""Whether a run is worse than another: the one place that decides it, for `runs compare` and the files it writes."""

from __future__ import annotations

from pydantic import Field

from app.studies.sentences import format_margin, format_tasks_to_decide
from app.web.http.schemas import ResponseModel
from app.web.ui.units import counted, percent, points, seconds, size
from evaluation.decisions import PairDecision, Verdict
from evaluation.inference import Comparison, least_discordant, mcnemar


class Conclusion(ResponseModel):
    """What `bassline runs compare --fail-if-worse` decides by: it ends with 3 for `worse`, 2 for `underpowered`."""

    underpowered: str | None = Field(
        description="`reference` solves so few tasks that no loss could be seen: why, and what to do"
    )
    worse: bool = Field(description="`reference` is better than `other` in Pass@First")
    verdict: Verdict = Field(description="better: the one with more tasks; as_good within the margin; or undecided")
    margin: float = Field(description="a share of the tasks, 0.05 are 5 points")
    tasks_to_decide: int | None = Field(
        description="how many tasks would decide a difference of the margin; null if decided or above 100,000"
    )
    title: str
    sentence: str = Field(description="what was tested and how it came out")


def decide(first: Comparison, decision: PairDecision, withheld: str | None) -> Conclusion:
    """By the verdict about B (`other`) against A in Pass@First at the budget (evaluation/decisions.py).

    Where A solves so few tasks that losing all of them would not be seen, nothing is decided unless B is better.

    Pass@All is reported and decides nothing: two tests would find a difference by chance more often than 5 %.
    A difference that the speed of the machine could explain (`withheld`, app/comparison/caution.py) is not a finding
    either way.
    """
    n, verdict, fault, tasks = first.n_tasks, decision.verdict, None, decision.tasks_to_decide
    tested = (
        f"Pass@First at {seconds(first.budget_s)} over {counted(n, 'task')}: {percent(first.b, n)} -> "
        f"{percent(first.a, n)}, {points(decision.difference, n)} points (95 % interval {points(decision.low, n)} to "
        f"{points(decision.high, n)}), {counted(len(first.wins), 'task')} won and {len(first.losses)} lost"
    )
    if withheld is not None:
        verdict, tasks = "undecided", None
        title, sentence = "Undecided: the clock does not allow it", f"{tested}. The interval excludes 0, but {withheld}"
    elif verdict == "better":
        title = "Better" if decision.a_is_better else "Worse"
        sentence = f"{tested}. The interval excludes 0: chance does not explain it."
    elif fault := _find_lack_of_power(first):
        title, sentence = "Undecided: A solves too few tasks", f"{tested}. {fault}"
    elif verdict == "as_good":
        title, sentence = (
            f"As good within {format_margin(decision.margin)}",
            f"{tested}. {_describe_limits(decision, n)}",
        )
    else:
        title = f"Undecided: no worse as far as {counted(n, 'task')} can tell"
        sentence = f"{tested}. {_describe_limits(decision, n)}"
        if tasks is not None:
            needed, margin = format_tasks_to_decide(tasks), format_margin(decision.margin)
            sentence += f" About {needed} tasks would decide a difference of {margin}."
    return Conclusion(
        underpowered=fault, worse=verdict == "better" and decision.b_is_better, verdict=verdict,
        margin=decision.margin, tasks_to_decide=tasks, title=title, sentence=sentence,
    )  # fmt: skip


def describe_inferiority(decision: PairDecision, n_tasks: int) -> str | None:
    """Why B is not shown to be at most the margin below A; None where it is.

    The usual test of non-inferiority: the one-sided lower limit of the difference must lie above the margin.
    """
    if decision.a_is_not_worse:
        return None
    return (
        f"B may be more than {format_margin(decision.margin)} worse than A: the difference over "
        f"{counted(n_tasks, 'task')} is {points(decision.difference, n_tasks)} points, and its one-sided 95 % limit is "
        f"{points(decision.at_least, n_tasks)}. Evaluate more tasks, or give a larger margin."
    )


def _describe_limits(decision: PairDecision, n_tasks: int) -> str:
    worse, better = (max(0.0, limit) for limit in (-decision.at_least, decision.at_most))
    return f"B is at most {size(worse, n_tasks)} points worse and at most {size(better, n_tasks)} better."


def _find_lack_of_power(first: Comparison) -> str | None:
    """Why a loss of every task that A solves would not be seen, and what to do; None where it would be."""
    solved, needed = round(first.b * first.n_tasks), least_discordant(first.alpha)
    if solved >= needed:
        return None
    return (
        f"A solves {solved} of {counted(first.n_tasks, 'task')}: even if B lost all of them, p would be "
        f"{mcnemar(0, solved):.3f}. For a loss to be seen at {first.alpha:g}, A must solve at least {needed}: "
        "evaluate more tasks or more samples per task, give a larger budget, or test at a larger alpha."
    )
