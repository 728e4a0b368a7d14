"""A comparison as Markdown, to be pasted into a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.overlay.pair import RunComparison
from app.overlay.pair_presentation import measured_with, pair_caveats
from app.ui.display import plain
from app.ui.units import decimal, percent, points, seconds
from evaluation.decisions import PairDecision
from evaluation.inference import Comparison

SHOWN_TASKS = 50


def markdown(compared: RunComparison) -> str:
    """The conclusion, the figures, the tasks that only one run solves, the changed settings, and the caveats."""
    a, b, first = compared.reference, compared.other, compared.pass_first
    conclusion = compared.conclusion
    parts = [
        f"### {conclusion.title}",
        f"**B**, {_code(b.name)}, against **A**, {_code(a.name)}. {conclusion.sentence}",
        _table(
            ("", "A", "B", "difference in points", "95 % interval", "McNemar's p", "tasks won", "tasks lost"),
            [
                _row("Pass@First", first, compared.decision_first),
                _row("Pass@All", compared.pass_all, compared.decision_all),
            ],
        ),
        _speed(compared),
        _tasks("Lost: A solves them, B does not", first.losses),
        _tasks("Won: B solves them, A does not", first.wins),
        _changes(compared),
        "\n".join(f"- {text}" for text in pair_caveats(compared)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _row(label: str, c: Comparison, decision: PairDecision) -> tuple[str, ...]:
    n = c.n_tasks
    interval = f"{points(decision.low, n)} to {points(decision.high, n)}"
    figures = (percent(c.b, n), percent(c.a, n), points(c.delta, n), interval, f"{c.p:.3f}")
    return (f"{label} at {seconds(c.budget_s)}", *figures, str(len(c.wins)), str(len(c.losses)))


def _speed(compared: RunComparison) -> str:
    if compared.speed is None:
        return ""
    return f"B wrote {decimal(compared.speed)} times as many tokens per second as A, over the tasks that both finished."


def _tasks(title: str, task_ids: Sequence[str]) -> str:
    if not task_ids:
        return ""
    rest = len(task_ids) - SHOWN_TASKS
    more = f" and {rest} more" if rest > 0 else ""
    return f"{title} (Pass@First): {', '.join(map(_code, task_ids[:SHOWN_TASKS]))}{more}."


def _changes(compared: RunComparison) -> str:
    changed = [(name, *values) for name, values in compared.changed.items()]
    lines = [*changed, *measured_with(compared.reference, compared.other)]
    rows = [tuple(_code(str(part)) for part in line) for line in lines]
    return _table(("Set or measured differently", "A", "B"), rows) if rows else "A and B have the same settings."


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(heading)
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, rule, *rows))


def _code(text: str) -> str:
    """Text of unknown origin as a code span: nothing in it is markup, a link or a mention."""
    one_line = re.sub(r"\s+", " ", plain(text)).strip() or " "
    return "`" + one_line.replace("`", "\N{MODIFIER LETTER GRAVE ACCENT}").replace("|", "\\|") + "`"
