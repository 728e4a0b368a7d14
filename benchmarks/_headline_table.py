"""Writes the table of speeds in docs/results from the stored report: `python -m benchmarks._headline_table`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._arms import INT8
from benchmarks._headline_plan import MAX_START_TOKENS
from benchmarks._headline_rows import SHORT

ROOT = Path(__file__).parents[1]
_REPORTS = ROOT / "docs" / "results"
PAGES = {_REPORTS / "headline.md": _REPORTS / "headline.json"}
"""The report of each page that has a table, as `make headline` stores it."""
FIRST, LAST = "<!-- headline: generated -->", "<!-- headline: end -->"


class NoBlockError(ValueError):
    """The page has no place for the table."""


def split_page(page: Path) -> tuple[str, str, str]:
    """Return (what precedes the table, the table, what follows it). Raises NoBlockError."""
    whole = page.read_text("utf-8")
    if whole.count(FIRST) != 1 or whole.count(LAST) != 1:
        raise NoBlockError(f"{page.name} needs one line {FIRST} and one line {LAST}")
    start, end = whole.index(FIRST) + len(FIRST), whole.index(LAST)
    return whole[:start], whole[start:end].strip("\n"), whole[end:]


def format_report(report: Mapping[str, Any]) -> str:
    """Return the block: machine and settings, the ratios by kind of request, and the rows of no request."""
    settings, rows = report["settings"], report["rows"]
    commit = f", commit {settings['git_commit'][:8]}" if settings["git_commit"] else ""
    start = min(MAX_START_TOKENS, settings["max_tokens"])
    dense = SHORT.get(settings["dtype"], settings["dtype"])
    head = (
        f"{report['device']} ({settings['processor']}), {dense} where no weights are named, attention "
        f"{settings['attention']}, torch {settings['torch_version']}{commit}; other programs used "
        f"{report['figures']['others_share']:.0%} of the CPU. Medians of {settings['tasks']} HumanEval "
        f"prompts, quartiles in brackets; answers to their end, at most {settings['max_tokens']} tokens (against "
        f"`generate`: their first {start}). qwen2.5-coder-0.5b unless named. * less is better."
    )
    reasons = "; ".join(f"{name}: {reason}" for name, reason in settings["not_run"].items())
    left_out = f"\n\nNot measured: {reasons}." if reasons else ""
    columns = list(dict.fromkeys(row["column"] for row in rows if row["column"]))
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["column"]:
            lines.setdefault(row["label"], dict.fromkeys(columns, ""))[row["column"]] = _format_cell(row)
    first = [{"ratio": label, **cells} for label, cells in lines.items()]
    second = [{"beside decoding": row["label"], "": _format_cell(row)} for row in rows if not row["column"]]
    return "\n\n".join([head + left_out, *(_format_table(table) for table in (first, second) if table)])


def _format_cell(row: Mapping[str, Any]) -> str:
    arm = f", {row['arm'].removeprefix(INT8).partition('/')[0]}" if row["arm"] else ""
    return f"{row['median']:.2f} ({row['q1']:.2f} to {row['q3']:.2f}){arm}"


def _format_table(rows: Sequence[Mapping[str, str]]) -> str:
    lines = [[*rows[0]], ["---"] * len(rows[0]), *[[*row.values()] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  ", "| ") for line in lines)


def write_table(page: Path, table: str) -> None:
    """Replace the table of a page. Raises NoBlockError."""
    before, _, after = split_page(page)
    page.write_text(f"{before}\n\n{table}\n\n{after}", "utf-8")


def main() -> None:
    """Write the tables."""
    for page, report in PAGES.items():
        write_table(page, format_report(json.loads(report.read_text("utf-8"))))


if __name__ == "__main__":
    main()
