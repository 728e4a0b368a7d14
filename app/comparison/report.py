"""What a comparison of two runs says, for the command line, pages and a pull request (Markdown)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.comparison.caution import describe_caveats, is_same_device
from app.comparison.documents import PairedDifference
from app.comparison.loading import Overlay
from app.comparison.pair import RunComparison
from app.runs.configuration import list_configuration
from app.runs.results import Figures
from app.web.ui.tables import TextTable, format_markdown_table, quote_markdown
from app.web.ui.units import (
    format_count,
    format_decimal,
    format_integer,
    format_milliseconds,
    format_percent,
    format_points,
    format_seconds,
)

SHOWN_TASKS = 50
TIMES: Sequence[tuple[str, Callable[[Figures], float | None], Callable[[float | None], str]]] = (
    ("First finished sample, median", lambda f: f.first_finished_p50_s, format_seconds),
    ("First finished sample, 95th percentile", lambda f: f.first_finished_p95_s, format_seconds),
    ("ms per token, first to finish", lambda f: f.ms_per_token_first, format_milliseconds),
    ("ms per token, last to finish", lambda f: f.ms_per_token_last, format_milliseconds),
    ("ms per token, all samples", lambda f: f.ms_per_token_all, format_milliseconds),
    ("Tokens per second", lambda f: f.tokens_per_s, format_integer),
    ("Accepted length, tokens", lambda f: f.mean_acceptance_length, format_decimal),
)


def build_figures_table(compared: RunComparison) -> TextTable:
    """Both figures of both runs, with the difference and what the exact test says at this budget alone."""
    return TextTable(
        f"At {format_seconds(compared.budget_s)}",
        "B minus A. The interval holds at all budgets together; p is of this budget alone and decides nothing.",
        ("", "A", "B", "difference in points", "95 % interval", "McNemar's p", "tasks won", "tasks lost"),
        tuple(_describe_figure(f"Pass@{name}", one, compared) for name, one in compared.figures.items()),
    )


def _describe_figure(label: str, one: PairedDifference, compared: RunComparison) -> tuple[str, ...]:
    n = one.n_tasks
    shares = (format_percent(one.b, n), format_percent(one.a, n), format_points(one.delta, n))
    interval = f"{format_points(one.low, n)} to {format_points(one.high, n)}"
    wins, losses = str(len(one.wins)), str(len(one.losses))
    return (f"{label} at {format_seconds(compared.budget_s)}", *shares, interval, f"{one.p:.3f}", wins, losses)


def build_changes_table(overlay: Overlay) -> TextTable:
    """Settings and measuring conditions that differ, with a column for each run."""
    configurations = zip(*map(list_configuration, overlay.runs), strict=True)
    rows = [(settings[0][0], *(value for _, value in settings)) for settings in configurations]
    for key in sorted({key for run in overlay.runs for key in run.provenance}):
        values = (_format_cell(run.provenance.get(key)) for run in overlay.runs)
        rows.append((key.replace("_", " ").capitalize(), *values))
    changed = dict.fromkeys(row for row in rows if len(set(row[1:])) > 1)
    return TextTable("What changed", "", ("Set or measured differently", *overlay.letters), tuple(changed))


def _format_cell(value: object) -> str:
    return "–" if value is None else str(value)


def build_times_table(overlay: Overlay) -> TextTable:
    """How fast each run was up to its own budget."""
    note = "Each run up to its own budget, over all of its tasks."
    if not is_same_device(overlay.runs):
        note += " They used different devices or dtypes, so do not compare."
    rows = ((label, *(text(figure(run.measured)) for run in overlay.runs)) for label, figure, text in TIMES)
    return TextTable("Time", note, ("Figure", *overlay.letters), tuple(rows))


def describe_speed(compared: RunComparison) -> str:
    """How fast B is against A; empty where that is not known."""
    if compared.speed is None:
        return ""
    a, b = compared.reference.n, compared.other.n
    over = "over the tasks that both finished"
    if a == b:
        return f"B wrote {format_decimal(compared.speed)} times as many tokens per second as A, {over}."
    return (
        f"Per sample, B wrote {format_decimal(compared.speed * a / b)} times as many tokens per second as A, "
        f"{over}; in all {format_decimal(compared.speed)} times, with {format_count(b, 'sample')} per task against {a}."
    )


def describe_notes(compared: RunComparison) -> list[str]:
    """The caveats on the figures, a sentence or two each."""
    said = [f"Pass@{name} is undecided: {one.withheld}" for name, one in compared.figures.items() if one.withheld]
    return said + describe_caveats(compared.overlay, compared.conditions.caveat)


def format_markdown(compared: RunComparison) -> str:
    """The conclusion, the figures, the tasks that only one run solves, the changed settings, and the caveats."""
    a, b, conclusion = compared.reference, compared.other, compared.conclusion
    figures, changes = build_figures_table(compared), build_changes_table(compared.overlay)
    parts = [
        f"### {conclusion.title}",
        f"**B**, {quote_markdown(b.name)}, against **A**, {quote_markdown(a.name)}. {conclusion.sentence}",
        format_markdown_table(figures.headings, figures.rows),
        describe_speed(compared),
        _list_tasks("Lost: A solves them, B does not", compared.first.losses),
        _list_tasks("Won: B solves them, A does not", compared.first.wins),
        format_markdown_table(changes.headings, [tuple(map(quote_markdown, row)) for row in changes.rows])
        if changes.rows
        else "A and B have the same settings.",
        "\n".join(f"- {text}" for text in describe_notes(compared)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _list_tasks(title: str, task_ids: Sequence[str]) -> str:
    if not task_ids:
        return ""
    rest = len(task_ids) - SHOWN_TASKS
    more = f" and {rest} more" if rest > 0 else ""
    return f"{title} (Pass@First): {', '.join(map(quote_markdown, task_ids[:SHOWN_TASKS]))}{more}."
