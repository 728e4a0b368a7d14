"""What a race shows: what each side had when, in sentences and as a chart, and the times its replay moves by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.completions.race import Side
from app.runs import presentation as shown
from app.runs.figures import in_budget_s
from app.samples.models import Sample
from app.samples.origins import tokens
from app.states import RunState
from app.ui.charts.timeline import Life, Timeline, timeline
from app.ui.display import plain
from app.ui.units import count, seconds

REPLAYED_CHARACTERS = 4000  # of each sample: more than its lane shows without scrolling
FENCE = "\n```"  # ends an answer to a chat prompt; no part of the code


def answer(a: Side, b: Side) -> str:
    """The outcome in one or two sentences; "" while a side is open."""
    if a.open or b.open:
        return ""
    finished = _compared(a, b, a.first_finished_s, b.first_finished_s, "finished its first sample", "finished sample")
    if not _graded(a, b):
        return f"{finished} Without a test nobody knows which answers are right."
    right = _compared(a, b, a.first_right_s, b.first_right_s, "had its first right answer", "right answer")
    same = (a.first_right_s, b.first_right_s) == (a.first_finished_s, b.first_finished_s)
    return right if same else f"{right} {finished}"


def table(a: Side, b: Side) -> list[tuple[str, str, str]]:
    """What, A's value and B's value, in the order in which things happen."""
    rows = [
        ("First token", seconds(a.first_token_s), seconds(b.first_token_s)),
        ("First finished sample", seconds(a.first_finished_s), seconds(b.first_finished_s)),
    ]
    if _graded(a, b):
        rows += [
            ("First right answer", seconds(a.first_right_s), seconds(b.first_right_s)),
            ("The chosen answer, if it is right", seconds(a.chosen_s), seconds(b.chosen_s)),
        ]
    rows += [
        ("All samples ended", seconds(a.ended_s), seconds(b.ended_s)),
        ("Finished within the budget", _of_all(a, a.finished), _of_all(b, b.finished)),
    ]
    if _graded(a, b):
        rows.append(("Right", _of_all(a, a.right), _of_all(b, b.right)))
    return [*rows, ("Tokens", _tokens(a), _tokens(b))]


def chart(a: Side, b: Side) -> Timeline | None:
    """Every sample of both sides on one clock; None before there is one."""
    lives = [
        Life(f"{side.name}{s.row.index}", s.sign, s.row.first_token_s or 0.0, end_s(side, s.row))
        for side in (a, b)
        for s in shown.in_finish_order(side.samples)
    ]
    if not lives:
        return None
    budget = max(side.run.budget_s for side in (a, b) if side.run)
    drawn = timeline(lives, budget, length_s(a, b))
    return replace(
        drawn, description=drawn.description.replace("from the start of the task", "from the start of each side")
    )


def length_s(a: Side, b: Side) -> float:
    """Seconds from the common start to the end of the last sample; 1 where no time is known."""
    return max((end_s(side, s) for side in (a, b) for s in side.samples), default=0.0) or 1.0


def end_s(side: Side, sample: Sample) -> float:
    """When the sample was finished or cut off."""
    wall = side.row.wall_s if side.row else None
    return in_budget_s(sample) or sample.finished_s or wall or 0.0


def moments(a: Side, b: Side) -> list[tuple[float, str]]:
    """What the replay says on its way and when (seconds), in order."""
    found = []
    for side in (a, b):
        times = [
            (side.first_token_s, "writes its first token"),
            (side.first_finished_s, "finishes its first sample"),
            (side.first_right_s, "has its first right answer"),
            (side.ended_s if side.samples else None, "has ended all samples"),
        ]
        found += [(at, f"{side.name} {text}, {seconds(at)}.") for at, text in times if at is not None]
    return sorted(found)


def sample_replay(side: Side, sample: Sample) -> dict[str, Any]:
    """`first` and `end` in seconds, between which the page spreads the `n_tokens` evenly.

    `tokens` are [origin, text] of those that stand in the first REPLAYED_CHARACTERS. A sample from before ends of
    tokens were stored appears whole when it ends.
    """
    text = plain(sample.raw.removesuffix(FENCE))[:REPLAYED_CHARACTERS]
    return {
        "first": (sample.first_token_s or 0.0) if sample.ends else end_s(side, sample),
        "end": end_s(side, sample),
        "n_tokens": len(sample.ends or ()),
        "tokens": [piece for piece in tokens(text, sample.ends or [], sample.origins) if piece[1]],
    }


def _graded(*sides: Side) -> bool:
    return any(side.run is not None and side.run.graded for side in sides)


def _compared(a: Side, b: Side, of_a: float | None, of_b: float | None, reached: str, what: str) -> str:
    if of_a is None and of_b is None:
        same = _lacks(a, what) == _lacks(b, what)
        return f"Each side {_lacks(a, what)}." if same else f"A {_lacks(a, what)}, B {_lacks(b, what)}."
    if of_a is None:
        return f"B {reached} after {seconds(of_b)}; A {_lacks(a, what)}."
    if of_b is None:
        return f"A {reached} after {seconds(of_a)}; B {_lacks(b, what)}."
    (early, first), (late, second) = sorted(((of_a, "A"), (of_b, "B")))
    if seconds(early) == seconds(late):
        return f"Each side {reached} after {seconds(early)}."
    return f"{first} {reached} after {seconds(early)}, {second} after {seconds(late)}."


def _lacks(side: Side, what: str) -> str:
    """Why a side did not reach something."""
    if side.run is None:
        return "has been deleted"
    if side.run.state is RunState.FAILED:
        return "failed"
    if side.run.state in (RunState.CANCELLED, RunState.INTERRUPTED) and not side.finished:
        return f"was {side.run.state}"
    return f"had no {what} within {seconds(side.run.budget_s)}"


def _tokens(side: Side) -> str:
    return count(sum(s.n_tokens for s in side.samples) or None)


def _of_all(side: Side, number: int) -> str:
    return f"{number} of {side.run.n}" if side.run and side.samples else "–"
