"""`bassline datasets translate`."""

from __future__ import annotations

import click

from app.commands import common
from app.commands.progress import Bars
from app.datasets import service, translation
from app.ports import detect_sandbox
from app.ui.terminal import echo
from app.ui.units import counted


@click.command()
@click.argument("dataset")
@click.option("--to", "to", required=True, metavar="LANG[,LANG]", help="the languages")
@click.option("--name", required=True, help="of the new dataset; with several languages each adds its own name")
@common.json_option
def translate(dataset: str, to: str, name: str, json_file: str | None) -> None:
    """Make a dataset in another language from a Python dataset.

    Cases are what the canonical solutions do in the tests. Types come from annotations and values, and the docstring
    becomes the doc comment of the language. Each task is checked by programs that answer from its table of cases: the
    right one must pass every case, wrong ones must fail exactly where they are wrong.

    Example:
        bassline datasets translate humaneval --to javascript --name humaneval-js
        bassline datasets translate humaneval --to javascript,typescript --name humaneval
    """
    languages = [word.strip() for word in to.split(",") if word.strip()]
    names = translation.names_of(languages, name)
    ctx = common.opened_context()
    source = service.require(ctx, dataset)
    sandbox = detect_sandbox(ctx.settings.packages, "so no solution can be run")
    with Bars() as bars:
        made = translation.make(
            ctx, sandbox, source, languages, lambda what, done, n: bars.show(what, done, n, f"{done} of {n} tasks")
        )
    documents = []
    for each in made:
        document = translation.report(each, translation.store(ctx, each, names[each.language]))
        documents.append(document)
        if json_file != "-":
            _print(document, source.n_tasks)
    common.write_json(json_file, documents[0] if len(documents) == 1 else {"translations": documents})
    if not any(each.tasks for each in made):
        raise common.failed(f"no task of {dataset} could be translated")


def _print(document: dict[str, object], total: int) -> None:
    tasks, cases, reasons = document["tasks"], document["cases"], document["left_out"]
    assert isinstance(tasks, int)
    assert isinstance(cases, int)
    assert isinstance(reasons, dict)
    name = document["dataset"] or document["language"]
    echo(f"{name}: {tasks} of {counted(total, 'task')} translated, {counted(cases, 'case')}")
    for reason, task_ids in sorted(reasons.items(), key=lambda item: -len(item[1])):
        echo(f"  left out {len(task_ids)}: {reason} ({', '.join(task_ids[:8])}{' ...' if len(task_ids) > 8 else ''})")
