"""`bassline leaderboard`."""

from __future__ import annotations

import click
from rich.table import Table

from app.cli import common
from app.cli.options import add_spec_options
from app.leaderboard.api import BoardQuery
from app.leaderboard.columns import COLUMNS, Column, make_board_row
from app.leaderboard.entries import LeaderboardCache
from app.leaderboard.service import LeaderboardRow, rank_runs
from app.runs.documents import to_plain_json


@click.command()
@add_spec_options(BoardQuery, "budget", "dataset", "target", "archived", budget={"callback": common.check_positive})
@common.json_option
def leaderboard(
    budget: float | None, dataset: str | None, target: str | None, json_file: str | None, archived: bool
) -> None:
    """Runs by Pass@First within a budget; archived ones only with --archived.

    Example:
        bassline leaderboard --budget 2.5
    """
    ctx = common.open_context()
    with ctx.database.read() as session:
        rows = rank_runs(LeaderboardCache().read(session), budget, dataset=dataset, target=target, archived=archived)
    common.write_json(json_file, [to_plain_json(make_board_row(row)) for row in rows])
    console = common.choose_console(json_file)
    if not rows:
        console.print("No run matches." if dataset or target else "No graded runs yet: make one with `bassline eval`.")
    groups: dict[tuple[object, ...], list[LeaderboardRow]] = {}
    for row in rows:
        # What is not ranked stays in one table: its first column says why each run is not ranked.
        unranked = (row.run.dataset_sha256, row.run.device)
        groups.setdefault(row.run.group if row.run.unranked_reason is None else unranked, []).append(row)
    for members in groups.values():
        console.print(_build_leaderboard(members))
        console.print()


def _build_leaderboard(rows: list[LeaderboardRow]) -> Table:
    """A table for one dataset and device, either ranked or not: only runs over the same tasks are comparable."""
    one = rows[0].run
    title = (
        f"{'' if one.unranked_reason is None else 'Not ranked: '}{one.dataset} {one.dataset_sha256[:8]} on {one.device}"
    )
    columns = [column for column in COLUMNS if column.printed]
    headings = ("Rank", "Run", "Target", "Budget", *(column.label for column in columns))
    lines = [
        (
            str(row.rank or row.run.unranked_reason),
            row.run.name + (" (clock disturbed)" if row.run.figures.clock_marks else ""),
            row.run.target,
            f"{row.budget_s:g} s",
            *(_format_cell(column, row) for column in columns),
        )
        for row in rows
    ]
    shares = [column.label for column in columns if column.share is not None]
    return common.build_table(headings, lines, shares, title=title, title_justify="left")


def _format_cell(column: Column, row: LeaderboardRow) -> str:
    """The column's text and note; shares of a run that stopped at a smaller budget are lower bounds."""
    bound = "≥ " if column.share and row.capped else ""
    return f"{bound}{column.text(row)} {column.note(row)}".rstrip()
