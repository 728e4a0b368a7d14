"""`bassline datasets`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from app.background.jobs import open_job
from app.background.work import run_job_or_cancel
from app.cli import common
from app.cli.from_code import from_code
from app.cli.progress import JobBar
from app.core.context import Context
from app.core.db.references import find_id
from app.core.errors import BasslineError, UnavailableError
from app.core.states import SANDBOX_ERROR
from app.core.terminal import echo
from app.datasets import repository, service, translation
from app.datasets.checking import check_solutions
from app.datasets.models import Dataset
from app.web.ui.units import format_count, join_first

MAX_NAMES = 20  # of tasks, on one line


@click.group()
def datasets() -> None:
    """List, import and show datasets, and make one from your own code.

    Example:
        bassline datasets list
    """


@datasets.command("list")
@common.json_option
def list_(json_file: str | None) -> None:
    """All datasets.

    Example:
        bassline datasets list
    """
    ctx = common.open_context()
    for name in service.BUILTIN:
        service.require_dataset(ctx, name)
    with ctx.database.read() as session:
        found = repository.list_datasets(session)
    common.write_json(
        json_file, [{"name": d.name, "sha256": d.sha256, "kind": d.kind, "tasks": d.n_tasks} for d in found]
    )
    rows = [(d.name, str(d.n_tasks), d.kind, d.sha256) for d in found]
    common.print_list(json_file, ("name", "tasks", "kind", "sha256"), rows)


@datasets.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--name", help="default: the file's name without its ending")
@click.option("--no-check", is_flag=True, help="do not run the canonical solutions; the first run will")
def import_(file: Path, name: str | None, no_check: bool) -> None:
    """Check a JSONL(.gz) file in the form of HumanEval, MBPP, EvalPlus, MultiPL-E or HumanEval-X and store it.

    Fields that play no part are named. Then the canonical solutions are run in the sandbox. Tasks whose own solution
    fails are stored and named; runs leave them out.

    Example:
        bassline datasets import tasks.jsonl --name mine
    """
    ctx = common.open_context()
    dataset = service.import_file(ctx, file, name)
    echo(f"{dataset.name}: {format_count(dataset.n_tasks, 'task')}, sha256 {dataset.sha256}")
    newest = service.require_dataset(ctx, dataset.name)
    if newest.id != dataset.id:
        echo(
            f"this content was imported before; the name {dataset.name} now refers to {newest.sha256[:8]}: "
            "import this one under another --name to use it",
            err=True,
        )
    _print_fields(ctx, dataset)
    if not no_check:
        _check_solutions(ctx, dataset)


def _print_fields(ctx: Context, dataset: Dataset) -> None:
    """Says which fields of the file decide, which play no part, and which tasks cannot be judged."""
    with ctx.database.read() as session:
        echo(repository.find_field_use(session, dataset.id).describe(dataset.n_tasks))
        left_out = session.get_one(Dataset, dataset.id).left_out or []
    by_reason: dict[str, list[str]] = {}
    for row in left_out:
        by_reason.setdefault(row["reason"], []).append(row["function"])
    for reason, names in by_reason.items():
        echo(f"{format_count(len(names), 'task')} left out, {join_first(names, MAX_NAMES)}: {reason}", err=True)


def _check_solutions(ctx: Context, dataset: Dataset) -> None:
    """Runs the canonical solutions in the sandbox, and prints which tasks fail."""
    with JobBar() as bar:
        try:
            failed = check_solutions(ctx, dataset.id, bar.report_part)
        except UnavailableError as error:
            echo(f"the canonical solutions were not run, the first run will: {error}", err=True)
            return
    if not failed:
        echo("no canonical solution fails")
        return
    unjudged = {task_id: verdict for task_id, verdict in failed.items() if verdict and verdict[0] == SANDBOX_ERROR}
    if unjudged:
        echo(
            f"{len(unjudged)} of {dataset.n_tasks} tasks cannot be judged here, and runs leave them out: "
            f"{join_first(list(unjudged), MAX_NAMES)}: {next(iter(unjudged.values()))[1]}",
            err=True,
        )
    wrong = {task_id: verdict for task_id, verdict in failed.items() if task_id not in unjudged}
    if not wrong:
        return
    echo(
        f"{len(wrong)} of {dataset.n_tasks} tasks fail with their own canonical solution, and runs leave them out: "
        f"{join_first(list(wrong), MAX_NAMES)}; correct the file and import it again",
        err=True,
    )
    for task_id, verdict in list(wrong.items())[:MAX_NAMES]:
        if verdict:  # status and fault, which an earlier check did not store
            echo(f"  {task_id}: {': '.join(verdict)}", err=True)


@datasets.command()
@click.argument("dataset")
@click.option("--to", "to", required=True, metavar="LANG[,LANG]", help="the languages")
@click.option("--name", required=True, help="of the new dataset; with several languages each adds its own name")
@common.json_option
def translate(dataset: str, to: str, name: str, json_file: str | None) -> None:
    """Make a dataset in another language from a Python dataset.

    The cases record what the canonical solutions do in the tests. Types come from annotations and values; the docstring
    becomes the doc comment of the language. Each task is checked by programs that answer from its table of cases: the
    right one must pass every case, wrong ones must fail exactly where they are wrong.

    Example:
        bassline datasets translate humaneval --to javascript --name humaneval-js
        bassline datasets translate humaneval --to javascript,typescript --name humaneval
    """
    languages = [word.strip() for word in to.split(",") if word.strip()]
    names = translation.name_translations(languages, name)
    ctx = common.open_context()
    source = service.require_dataset(ctx, dataset)
    arguments = {"dataset_id": str(source.id), "names": names}
    job_id = open_job(
        ctx, translation.TranslateDataset.kind, source.name, key=str(arguments)[:300], arguments=arguments
    )
    with JobBar() as bar:
        result = run_job_or_cancel(ctx, job_id, bar.report)
    documents = result["reports"]
    if json_file != "-":
        for document in documents:
            _print_translation(document, source.n_tasks)
    common.write_json(json_file, documents[0] if len(documents) == 1 else {"translations": documents})
    if not any(document["tasks"] for document in documents):
        raise BasslineError(f"no task of {dataset} could be translated")


def _print_translation(document: dict[str, Any], total: int) -> None:
    name, cases = document["dataset"] or document["language"], format_count(document["cases"], "case")
    echo(f"{name}: {document['tasks']} of {format_count(total, 'task')} translated, {cases}")
    for reason, task_ids in sorted(document["left_out"].items(), key=lambda item: -len(item[1])):
        echo(f"  left out {len(task_ids)}: {reason} ({join_first(task_ids, 8)})")


datasets.add_command(from_code)


@datasets.command()
@click.argument("name")
@click.option("--task", "task_id", metavar="ID", help="one task in full")
def show(name: str, task_id: str | None) -> None:
    """The tasks of a dataset, or one of them in full.

    Example:
        bassline datasets show humaneval --task HumanEval/0
    """
    ctx = common.open_context()
    dataset = service.require_dataset(ctx, name)
    if task_id:
        (task,) = service.select_tasks(dataset, [task_id], None)
        echo(f"# {task.task_id}\n{task.prompt}{task.canonical_solution}{task.suffix or ''}\n{task.test}")
        if task.signature:
            echo(json.dumps({"language": task.language, "signature": task.signature, "cases": task.cases}, indent=2))
        if task.source:
            echo(f"# source: {json.dumps(task.source)}")
        return
    echo(f"{dataset.name}: {format_count(dataset.n_tasks, 'task')}, sha256 {dataset.sha256}")
    _print_fields(ctx, dataset)
    for task in dataset.tasks:
        echo(f"{task.task_id}  {task.entry_point}")


def _delete(ctx: Context, reference: str) -> str:
    with ctx.database.read() as session:
        found = repository.get_dataset(
            session, find_id(session, Dataset, reference, "dataset", "bassline datasets list")
        )
    service.delete_dataset(ctx, found.id)
    return f"deleted {found.name}, {format_count(found.n_tasks, 'task')}, sha256 {found.sha256}"


common.add_row_command(
    datasets, "delete", "Remove a dataset that no run and no study uses; of several with this name, the newest.",
    "mine", _delete, "NAME|ID",
)  # fmt: skip
