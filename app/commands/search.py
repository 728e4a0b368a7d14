"""`bassline search`."""

from __future__ import annotations

from typing import Any

import click
from pydantic import ValidationError

from app.commands import common
from app.commands.options import as_typed
from app.http.schemas import bad_input
from app.runs.render import plain
from app.search import documents, service
from app.search.schemas import SearchQuery
from app.search.service import Hit
from app.ui.terminal import echo
from evaluation.verdicts import FAILURES, Status


@click.command()
@click.argument("words", nargs=-1)
@click.option("--failure", type=common.Choice(FAILURES), help="only of this class of failures")
@click.option("--verdict", type=common.Choice(list(Status)), help="only with this verdict")
@click.option(
    "--run", metavar="TEXT", help="only of runs with this id, this beginning of an id, or this text in the name"
)
@click.option("--task", "task_id", metavar="ID", help="only of this task, as in HumanEval/12")
@click.option("--target", help="only of this model")
@click.option("--dataset", help="only over this dataset")
@click.option("--tag", help="only of runs with this tag")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@click.option("--cursor", help="continue an earlier search; it printed the value")
@common.json_option
def search(words: tuple[str, ...], json_file: str | None, **values: Any) -> None:
    """Samples of all runs by the words in their programs, raw texts and errors, newest first.

    A sample must hold all WORDS. Give a phrase in quotes inside of the shell's.

    \b
    Example:
        bassline search list_runs --verdict exception
        bassline search '"list index out of range"' 'x[0]' --run nightly
    """
    try:
        query = SearchQuery.model_validate({"q": " ".join(words), **{k: v for k, v in values.items() if v is not None}})
    except ValidationError as error:
        with as_typed():
            raise bad_input(error) from None
    ctx = common.opened_context()
    with ctx.database.read() as session:
        found = service.search(session, query)
    common.write_json(json_file, plain(documents.page(found)))
    if json_file == "-":
        return
    for hit in found.hits:
        _print(hit)
    if not found.hits:
        echo("No sample found." if found.following is None else f"None in the newest {found.looked_at} tasks.")
    if found.following is not None:
        echo(f"There may be more: repeat this with --cursor {found.next}", err=True)
    if found.unread:
        echo(f"{found.unread} tasks stored by an earlier version are not in the index yet.", err=True)


def _print(hit: Hit) -> None:
    echo(
        f"{hit.task_id} sample {hit.index}: {hit.failure or hit.verdict or 'not graded'}, {hit.run_name} ({hit.run_id})"
    )
    if hit.message:
        echo(f"    {hit.message}")
    for part in hit.excerpt.parts:
        for line in "".join(text for text, _ in part).splitlines():
            echo(f"    | {line}")
