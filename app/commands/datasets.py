"""`bassline datasets`."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.table import Table

from app.commands import common
from app.commands.from_code import from_code
from app.datasets import repository, service
from app.ui.terminal import echo


@click.group()
def datasets() -> None:
    """List, import and show datasets, and make one of your own code.

    \b
    Example:
        bassline datasets list
    """


@datasets.command("list")
@common.json_option
def list_(json_file: str | None) -> None:
    """All datasets.

    \b
    Example:
        bassline datasets list
    """
    ctx = common.opened_context()
    for name in service.BUILTIN:
        service.require(ctx, name)
    with ctx.database.read() as session:
        found = repository.list_datasets(session)
    common.write_json(
        json_file, [{"name": d.name, "sha256": d.sha256, "kind": d.kind, "tasks": d.n_tasks} for d in found]
    )
    table = Table("name", "tasks", "kind", "sha256", box=None, pad_edge=False)
    for dataset in found:
        table.add_row(dataset.name, str(dataset.n_tasks), dataset.kind, dataset.sha256)
    common.result_console(json_file).print(table)


@datasets.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--name", help="default: the file's name without its ending")
def import_(file: Path, name: str | None) -> None:
    """Check a JSONL(.gz) file in HumanEval's or MBPP's form and store it.

    \b
    Example:
        bassline datasets import tasks.jsonl --name mine
    """
    ctx = common.opened_context()
    dataset = service.import_file(ctx, file, name)
    echo(f"{dataset.name}: {dataset.n_tasks} tasks, sha256 {dataset.sha256}")
    newest = service.require(ctx, dataset.name)
    if newest.id != dataset.id:
        echo(
            f"this content was imported before; {dataset.name} means the newer {newest.sha256[:8]}: "
            "import this one under another --name to use it",
            err=True,
        )


datasets.add_command(from_code)


@datasets.command()
@click.argument("name")
@click.option("--task", "task_id", metavar="ID", help="one task in full")
def show(name: str, task_id: str | None) -> None:
    """The tasks of a dataset, or one of them in full.

    \b
    Example:
        bassline datasets show humaneval --task HumanEval/0
    """
    ctx = common.opened_context()
    dataset = service.require(ctx, name)
    if task_id:
        (task,) = service.select_tasks(dataset, [task_id], None)
        echo(f"# {task.task_id}\n{task.prompt}{task.canonical_solution}{task.suffix or ''}\n{task.test}")
        if task.source:
            echo(f"# source: {json.dumps(task.source)}")
        return
    echo(f"{dataset.name}: {dataset.n_tasks} tasks, sha256 {dataset.sha256}")
    for task in dataset.tasks:
        echo(f"{task.task_id}  {task.entry_point}")
