"""`bassline datasets translate`."""

from __future__ import annotations

import click

from app.background.jobs import open_job
from app.background.work import work_to_end
from app.cli import common
from app.cli.progress import Bars
from app.core.terminal import echo
from app.datasets import service, translation
from app.web.ui.units import counted


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
    arguments = {"dataset_id": str(source.id), "names": names}
    job_id = open_job(
        ctx, translation.TranslateDataset.kind, source.name, key=str(arguments)[:300], arguments=arguments
    )
    with Bars() as bars:
        result = work_to_end(
            ctx, job_id, lambda done, n, what: bars.show("translating", done, n, f"{done} of {n} {what}")
        )
    documents = result["reports"]
    if json_file != "-":
        for document in documents:
            _print(document, source.n_tasks)
    common.write_json(json_file, documents[0] if len(documents) == 1 else {"translations": documents})
    if not any(document["tasks"] for document in documents):
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
