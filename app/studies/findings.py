"""What to conclude from the parts of a study, in one sentence each. No sentence claims more than its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.studies.presentation import Family
from app.ui.units import counted, exact_seconds, percent, points, seconds
from evaluation.studies.analysis import Analysis
from evaluation.studies.paper_table import METHODS, PaperRow
from evaluation.studies.speculation import Gain, Speculation

REGULAR, _, BATCHED = METHODS


def first_right_s(found: Analysis) -> float | None:
    """The smallest budget in seconds at which a chosen sample of any arm is right; None where none ever is."""
    curves = [one.curve for one in found.curves]
    rises = [b for curve in curves for b, share in zip(curve.budgets, curve.pass_first, strict=True) if share]
    return min(rises, default=None)


def enough_samples(family: Family, n_tasks: int) -> str:
    """How many samples are enough at the page's budget."""
    one = family.samples
    at = f"At {exact_seconds(one.budgets[family.column])}"
    first, every = family.enough_first, family.enough_all
    if first is None and every is None:
        return f"{at} none of these has solved a task."
    parts = []
    choices = (("Pass@First", first, family.verdict_first), ("Pass@All", every, family.verdict_all))
    for figure, enough, verdict in choices:
        if enough is None:
            parts.append(f"{figure} has no right answer yet")
        elif verdict == "undecided":
            parts.append(f"n = {enough} is the best so far for {figure}, undecided")
        elif enough == max(one.ns):
            parts.append(f"{figure} still rises at n = {enough}, the largest n tried")
        else:
            parts.append(f"n = {enough} is enough for {figure}")
    return f"{at}, over {counted(n_tasks, 'task')}: {'; '.join(parts)}."


def bought(pair: Speculation, budget: float, labels: Mapping[str, str], n_tasks: int) -> tuple[Gain | None, str]:
    """(the gain at the budget nearest to `budget`, it in words)."""
    name = labels[pair.speculative]
    if not pair.gains:
        return None, f"{name}: regular decoding has solved no task, so there is no quality to reach."
    gain = min(pair.gains, key=lambda one: abs(one.budget_s - budget))
    return gain, f"{name}: {_time(gain, n_tasks)}. {_quality(gain, n_tasks)}."


def _time(gain: Gain, n_tasks: int) -> str:
    reached = f"the {percent(gain.plain, n_tasks)} that regular decoding has after {seconds(gain.plain_s)}"
    if gain.speculative_s is None or gain.saved_s is None:
        return f"{reached} are not reached within the study's budget"
    low, high = gain.saved_interval
    sign = "earlier" if gain.saved_s >= 0 else "later"
    by_chance = "" if _excludes_zero(low, high) else ", which chance can explain"
    return f"{reached} are reached {seconds(abs(gain.saved_s))} {sign} (95 %: {saved_range(gain)}){by_chance}"


def _quality(gain: Gain, n_tasks: int) -> str:
    low, high = gain.gained_interval
    by_chance = "" if _excludes_zero(low, high) else ", which chance can explain"
    span = f"95 %: {points(low, n_tasks)} to {points(high, n_tasks)}"
    gained = points(gain.gained, n_tasks)
    return f"Within {exact_seconds(gain.budget_s)} Pass@First differs by {gained} points ({span}){by_chance}"


def saved_range(gain: Gain) -> str:
    """The interval of the seconds saved: `+0.4 s to +1.9 s`; a limit without a bound is said so."""
    low, high = gain.saved_interval
    return f"{_signed(low, 'no bound')} to {_signed(high, 'no bound')}"


def _signed(value: float | None, unbounded: str) -> str:
    return unbounded if value is None else f"{'−' if value < 0 else '+'}{seconds(abs(value))}"


def _excludes_zero(low: float | None, high: float | None) -> bool:
    return (low is not None and low > 0) or (high is not None and high < 0)


def in_the_paper(rows: Sequence[PaperRow], labels: Mapping[str, str], n_tasks: int) -> str:
    """Regular decoding against the best batched speculation, when regular decoding has finished half of its samples."""
    setting = next((row for row in rows if row.regular == row.arm), None)
    if setting is None:
        return "No arm decodes regularly (drafter none), so nothing sets the budgets of this table."
    point = next((p for p in setting.points if p.budget_s is not None), None)
    if point is None or point.budget_s is None:
        return f"{labels[setting.arm]} does not finish half of its samples within the study's budget."
    place = setting.points.index(point)
    said = (
        f"Within {seconds(point.budget_s)} regular decoding ({labels[setting.arm]}) has finished "
        f"{percent(point.finished)} of its samples, and Pass@First is {percent(point.pass_first, n_tasks)}"
    )
    batched = [row for row in rows if row.method == BATCHED and row.regular == setting.arm]
    if not batched:
        return f"{said}."
    best = max(batched, key=lambda row: row.points[place].pass_first or 0.0)
    point = best.points[place]
    shares = f"{percent(point.finished)}, and Pass@First is {percent(point.pass_first, n_tasks)}"
    return f"{said}; {labels[best.arm]} has finished {shares}."
