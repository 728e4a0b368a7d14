"""`bassline search`."""

from __future__ import annotations

import click

from app.cli import common
from app.cli.options import parse_options
from app.core.terminal import echo
from app.runs.render import plain
from app.runs.repository import find_run
from app.search import service
from app.search.documents import HitDocument
from app.search.schemas import SearchQuery
from app.web.http.paging import LARGEST_PAGE


@click.command()
@click.argument("words", nargs=-1)
@click.option("--run", metavar="ID", help="only of this run (id, beginning of an id, or name)")
@click.option("--limit", type=click.IntRange(1, LARGEST_PAGE), default=50, show_default=True)
@click.option("--cursor", help="continue an earlier search; it printed the value")
@common.json_option
def search(words: tuple[str, ...], run: str | None, limit: int, cursor: str | None, json_file: str | None) -> None:
    """Samples of all runs that hold a text in their programs, raw texts or errors, newest first.

    WORDS are one text, in upper or lower case.

    Example:
        bassline search 'list index out of range'
        bassline search 'x[0]' --run nightly
    """
    query = parse_options(SearchQuery, {"q": " ".join(words), "limit": limit, "cursor": cursor})
    ctx = common.opened_context()
    with ctx.database.read() as session:
        if run is not None:
            query = query.model_copy(update={"run": find_run(session, run).id})
        found = service.search(session, query)
    common.write_json(json_file, plain(found))
    if json_file == "-":
        return
    for hit in found.samples:
        _print(hit)
    if not found.samples:
        echo("No sample found." if found.next is None else f"None in the newest {service.LOOKED_AT} samples.")
    if found.next is not None:
        echo(f"There may be more: repeat this with --cursor {found.next}", err=True)


def _print(hit: HitDocument) -> None:
    echo(f"{hit.task_id} sample {hit.index}: {hit.failure or hit.verdict or 'not graded'}, {hit.run} ({hit.run_id})")
    if hit.message:
        echo(f"    {hit.message}")
    for excerpt in hit.excerpts:
        for line in excerpt.text.splitlines():
            echo(f"    | {line}")
