"""The answer of a study: which arm to use at a budget, and which others the tasks cannot tell from it.

Answers are pointwise: each budget has its own tests. Past the point where the curves are flat they repeat each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from evaluation.inference import tasks_to_detect
from evaluation.studies.arms import Scored, score
from evaluation.studies.leaders import equally_good, interval, leader, wins_and_losses

MOST_TASKS = 100_000
"""A study of more tasks than this settles nothing in practice."""

NARROW = 2.0
"""Segments narrower than this factor in seconds join a neighbour that is at most one task behind."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The arm to use at one budget (seconds); `arm` is None while no arm's chosen sample has passed.

    `pass_first` and `pass_all` are the arm's shares of the common tasks (without an arm the highest of any arm, so
    the first is 0), `interval` is Wilson's for `pass_first`. `one_second_more` is what the same arm gains in
    Pass@First within one more second, None where that second is past the last budget. `equally_good` are the arms that
    the tasks cannot tell from it, cheapest first. `tasks_to_settle` is how many tasks would tell it from the best of
    these in 80 % of the cases, if the difference stays as it is; None if there is no such arm, if the two are equal,
    or if 100,000 tasks would not do.
    """

    budget_s: float
    arm: str | None
    pass_first: float
    interval: tuple[float, float]
    pass_all: float
    one_second_more: float | None
    equally_good: tuple[str, ...]
    tasks_to_settle: int | None


@dataclass(frozen=True, slots=True)
class Segment:
    """One arm from a budget up to another (seconds), where the next one begins or the study ends.

    The figures are those at the last budget of the segment, and so are `equally_good`, the arms that the tasks cannot
    tell from it, cheapest first: one that is told apart only at smaller budgets must not look beaten beside them.
    """

    from_s: float
    to_s: float
    arm: str
    pass_first: float
    interval: tuple[float, float]
    equally_good: tuple[str, ...]
    tasks_to_settle: int | None


def answers(scored: Scored) -> tuple[Answer, ...]:
    """One answer for each budget: the arm with the highest Pass@First; of several the one with the higher Pass@All,
    then the cheapest."""
    later = score(scored.arms, [budget + 1.0 for budget in scored.budgets])
    found = []
    for column, budget in enumerate(scored.budgets):
        arm = leader(scored, "first", column)
        if arm is None:
            highest = float(scored.all[:, :, column].mean(axis=1).max())
            found.append(Answer(budget, None, 0.0, interval(scored, "first", 0, column), highest, None, (), None))
            continue
        share = float(scored.first[arm, :, column].mean())
        equal = equally_good(scored, "first", column, arm)
        found.append(
            Answer(
                budget_s=budget,
                arm=scored.arms[arm].name,
                pass_first=share,
                interval=interval(scored, "first", arm, column),
                pass_all=float(scored.all[arm, :, column].mean()),
                one_second_more=(
                    float(later.first[arm, :, column].mean()) - share if budget + 1.0 <= scored.budgets[-1] else None
                ),
                equally_good=_names(scored, equal),
                tasks_to_settle=_tasks_to_settle(scored, column, arm, equal),
            )
        )
    return tuple(found)


def segments(scored: Scored) -> tuple[Segment, ...]:
    """The answers in few words: adjacent budgets with the same arm joined; nothing for budgets without an answer.

    A segment narrower than a factor of two in seconds joins a neighbour whose arm is at most one task behind the leader
    at each of its budgets: such a lead says nothing, and the sentence would name arms in turn.
    """
    leaders = [leader(scored, "first", column) for column in range(len(scored.budgets))]
    _join_narrow(scored, leaders)
    return tuple(_segment(scored, columns, arm) for arm, columns in _stretches(leaders) if arm is not None)


def sentence(scored: Scored, found: Sequence[Segment]) -> str:
    """The segments in words, in order of their budgets, with those budgets at which nothing passes."""
    if not found:
        return f"No chosen sample passed within {_seconds(scored.budgets[-1])} s: there is no configuration to name."
    parts = []
    end = scored.budgets[0]
    for segment in found:
        if segment.from_s > end:
            parts.append(f"{_span(scored, end, segment.from_s)}: no chosen sample passes.")
        parts.append(f"{_span(scored, segment.from_s, segment.to_s)}: {_figures(segment)}.{_equal(scored, segment)}")
        end = segment.to_s
    if end < scored.budgets[-1]:
        parts.append(f"{_span(scored, end, scored.budgets[-1])}: no chosen sample passes.")
    return " ".join(parts)


def _stretches(leaders: Sequence[int | None]) -> list[tuple[int | None, list[int]]]:
    """Adjacent columns with the same leader, as (leader, columns)."""
    grouped = groupby(range(len(leaders)), key=leaders.__getitem__)
    return [(arm, list(columns)) for arm, columns in grouped]


def _join_narrow(scored: Scored, leaders: list[int | None]) -> None:
    """Give the columns of narrow segments to a neighbour that is at most one task behind, the narrowest first."""
    solves = scored.first.sum(axis=1)
    behind = solves.max(axis=0) - solves
    while True:
        stretches = _stretches(leaders)
        candidates = []
        for place, (arm, columns) in enumerate(stretches):
            width = _end(scored, columns) / scored.budgets[columns[0]]
            for neighbour, _ in stretches[max(place - 1, 0) : place] + stretches[place + 1 : place + 2]:
                if arm is None or neighbour is None or width >= NARROW:
                    continue
                lost = int(behind[neighbour, columns].max())
                if lost <= 1:
                    candidates.append((width, lost, place, neighbour))
        if not candidates:
            return
        _, _, place, neighbour = min(candidates)
        for column in stretches[place][1]:
            leaders[column] = neighbour


def _end(scored: Scored, columns: Sequence[int]) -> float:
    """Seconds at which a segment of these columns ends: where the next begins, or the last budget."""
    return scored.budgets[min(columns[-1] + 1, len(scored.budgets) - 1)]


def _segment(scored: Scored, columns: Sequence[int], arm: int) -> Segment:
    last = columns[-1]
    equal = equally_good(scored, "first", last, arm)
    return Segment(
        from_s=scored.budgets[columns[0]],
        to_s=_end(scored, columns),
        arm=scored.arms[arm].name,
        pass_first=float(scored.first[arm, :, last].mean()),
        interval=interval(scored, "first", arm, last),
        equally_good=_names(scored, equal),
        tasks_to_settle=_tasks_to_settle(scored, last, arm, equal),
    )


def _tasks_to_settle(scored: Scored, column: int, arm: int, equal: Sequence[int]) -> int | None:
    if not equal:
        return None
    solves = scored.first[:, :, column].sum(axis=1)
    nearest = max(equal, key=lambda other: solves[other])
    wins, losses = wins_and_losses(scored, "first", column, arm, nearest)
    if wins == losses:
        return None
    tasks = len(scored.task_ids)
    # Never fewer than there are: these have not settled it.
    needed = max(tasks + 1, tasks_to_detect((wins - losses) / tasks, (wins + losses) / tasks))
    return needed if needed <= MOST_TASKS else None


def _names(scored: Scored, arms: Sequence[int]) -> tuple[str, ...]:
    return tuple(scored.arms[arm].name for arm in arms)


def _span(scored: Scored, from_s: float, to_s: float) -> str:
    if from_s <= scored.budgets[0]:
        return f"Up to {_seconds(to_s)} s"
    if to_s >= scored.budgets[-1]:
        return f"From {_seconds(from_s)} s"
    return f"From {_seconds(from_s)} to {_seconds(to_s)} s"


def _figures(segment: Segment) -> str:
    low, high = segment.interval
    return f"{segment.arm}: Pass@First {100 * segment.pass_first:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def _equal(scored: Scored, segment: Segment) -> str:
    if not segment.equally_good:
        return ""
    tasks = len(scored.task_ids)
    text = f" Equally good by then as far as {tasks} {'task' if tasks == 1 else 'tasks'} can tell: "
    text += "; ".join(segment.equally_good) + "."  # names of arms have commas
    if segment.tasks_to_settle:
        text += f" About {_two_digits(segment.tasks_to_settle):,} tasks would settle it."
    return text


def _two_digits(tasks: int) -> int:
    """Rounded to two significant digits: the figure is an estimate."""
    return int(float(f"{tasks:.2g}"))


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"
