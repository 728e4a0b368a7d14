"""A comparison as Markdown, to be pasted into a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.overlay.decision import Decision
from app.overlay.pair import RunComparison
from app.overlay.pair_presentation import measured_with, notes
from app.ui.display import plain
from app.ui.units import decimal, percent, points, seconds
from evaluation.inference import Comparison

SHOWN_TASKS = 50


def markdown(found: RunComparison, decision: Decision) -> str:
    """The conclusion, the figures, the tasks that only one run solves, the changed settings, and the caveats."""
    parts = [
        f"### {decision.title}",
        f"**B**, {_code(found.other.name)}, against **A**, {_code(found.baseline.name)}. {decision.sentence}",
        _table(
            ("", "A", "B", "difference in points", "95 % interval", "McNemar's p", "tasks won", "tasks lost"),
            [_row("Pass@First", found.first), _row("Pass@All", found.every)],
        ),
        _speed(found),
        _tasks("Lost: A solves them, B does not", found.first.losses),
        _tasks("Won: B solves them, A does not", found.first.wins),
        _changes(found),
        "\n".join(f"- {text}" for text in notes(found)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _row(label: str, c: Comparison) -> tuple[str, ...]:
    interval = f"{points(c.low)} to {points(c.high)}"
    figures = (percent(c.b), percent(c.a), points(c.delta), interval, f"{c.p:.3f}")
    return (f"{label} at {seconds(c.budget_s)}", *figures, str(len(c.wins)), str(len(c.losses)))


def _speed(found: RunComparison) -> str:
    if found.speed is None:
        return ""
    return f"B wrote {decimal(found.speed)} times as many tokens per second as A, over the tasks that both finished."


def _tasks(title: str, task_ids: Sequence[str]) -> str:
    if not task_ids:
        return ""
    rest = len(task_ids) - SHOWN_TASKS
    more = f" and {rest} more" if rest > 0 else ""
    return f"{title} (Pass@First): {', '.join(map(_code, task_ids[:SHOWN_TASKS]))}{more}."


def _changes(found: RunComparison) -> str:
    rows = [(_code(name), _code(str(a)), _code(str(b))) for name, (a, b) in found.changed.items()]
    rows += [(_code(key), _code(str(a)), _code(str(b))) for key, a, b in measured_with(found.baseline, found.other)]
    return _table(("Set or measured differently", "A", "B"), rows) if rows else "A and B have the same settings."


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(heading)
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, rule, *rows))


def _code(text: str) -> str:
    """Text of unknown origin as a code span: nothing in it is markup, a link or a mention."""
    one_line = re.sub(r"\s+", " ", plain(text)).strip() or " "
    return "`" + one_line.replace("`", "\N{MODIFIER LETTER GRAVE ACCENT}").replace("|", "\\|") + "`"
