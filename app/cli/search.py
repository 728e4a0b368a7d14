"""`bassline search`."""

from __future__ import annotations

from typing import Any

import click

from app.cli import common
from app.cli.options import parse_options, spec_options
from app.core.terminal import echo
from app.runs.render import plain
from app.search import documents, service
from app.search.schemas import FILTERS, SearchQuery
from app.search.service import Hit
from app.web.http.paging import LARGEST_PAGE
from app.web.ui.units import counted


@click.command()
@click.argument("words", nargs=-1)
@spec_options(
    SearchQuery,
    *FILTERS,
    "limit",
    "cursor",
    task_id={"metavar": "ID"},
    limit={"type": click.IntRange(1, LARGEST_PAGE)},
    cursor={"help": "continue an earlier search; it printed the value"},
)
@common.json_option
def search(words: tuple[str, ...], json_file: str | None, **values: Any) -> None:
    """Samples of all runs by the words in their programs, raw texts and errors, newest first.

    A sample must hold all WORDS. Give a phrase in quotes inside of the shell's.

    Example:
        bassline search list_runs --verdict exception
        bassline search '"list index out of range"' 'x[0]' --run nightly
    """
    query = parse_options(SearchQuery, {"q": " ".join(words), **values})
    ctx = common.opened_context()
    with ctx.database.read() as session:
        found = service.search(session, query)
    common.write_json(json_file, plain(documents.page(found)))
    if json_file == "-":
        return
    for hit in found.hits:
        _print(hit)
    if not found.hits:
        echo(
            "No sample found." if found.following is None else f"None in the newest {counted(found.looked_at, 'task')}."
        )
    if found.following is not None:
        echo(f"There may be more: repeat this with --cursor {found.next}", err=True)


def _print(hit: Hit) -> None:
    echo(
        f"{hit.task_id} sample {hit.index}: {hit.failure or hit.verdict or 'not graded'}, {hit.run_name} ({hit.run_id})"
    )
    if hit.message:
        echo(f"    {hit.message}")
    for part in hit.excerpt.parts:
        for line in "".join(text for text, _ in part).splitlines():
            echo(f"    | {line}")
