"""`bassline leaderboard`."""

from __future__ import annotations

import click
from rich.table import Table

from app.commands import common
from app.leaderboard import service
from app.leaderboard.documents import board_row
from app.leaderboard.service import Row
from app.runs.render import plain


@click.command()
@click.option("--budget", type=float, help="seconds; default: each run at its own budget")
@click.option("--dataset", help="only runs over this dataset")
@click.option("--target", help="only runs of this model")
@common.json_option
def leaderboard(budget: float | None, dataset: str | None, target: str | None, json_file: str | None) -> None:
    """Runs by Pass@First within a budget.

    \b
    Example:
        bassline leaderboard --budget 2.5
    """
    ctx = common.opened_context()
    with ctx.database.read() as session:
        rows = service.rows(session, budget, dataset=dataset, target=target)
    common.write_json(json_file, [plain(board_row(row)) for row in rows])
    console = common.result_console(json_file)
    if not rows:
        console.print("No graded runs yet: make one with `bassline eval`.")
    groups: dict[tuple[str, str, bool], list[Row]] = {}
    for row in rows:
        groups.setdefault((*row.run.group, row.run.label is None), []).append(row)
    for members in groups.values():
        console.print(_table(members))
        console.print()


def _table(rows: list[Row]) -> Table:
    """Rows of one dataset and device, ranked or not: only these may be compared."""
    one = rows[0].run
    title = f"{'' if one.label is None else 'Not ranked: '}{one.dataset} {one.dataset_sha256[:8]} on {one.device}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in ("rank", "run", "target", "n", "budget", "Pass@First", "Pass@All", "ms/token", "accepted", "tasks"):
        table.add_column(column, overflow="fold")
    for row in rows:
        capped = "≥ " if row.capped else ""
        table.add_row(
            "–" if row.rank is None else str(row.rank),
            row.run.name,
            row.run.target,
            str(row.run.n),
            f"{row.budget_s:g} s",
            capped + _share(row.pass_first, row.pass_first_interval),
            capped + _share(row.pass_all, row.pass_all_interval),
            common.number(row.run.ms_per_token),
            common.number(row.run.mean_acceptance_length, digits=2),
            row.run.label or f"{row.run.n_tasks} of {row.run.dataset_tasks}",
        )
    return table


def _share(share: float, bounds: tuple[float, float]) -> str:
    return f"{100 * share:.1f} % [{100 * bounds[0]:.0f}, {100 * bounds[1]:.0f}]"
