"""`bassline runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from app.cli import common, foreground
from app.cli.options import add_spec_options, parse_options
from app.cli.report import print_run
from app.cli.run_and_study import add_commands, archived_option, open_and_find_row, print_rows
from app.comparison import run_file
from app.comparison.pair import RunComparison, compare_runs, describe_inferiority
from app.comparison.report import (
    build_changes_table,
    build_figures_table,
    describe_notes,
    describe_speed,
    format_markdown,
)
from app.core.errors import BadInputError, BasslineError
from app.core.states import RunState
from app.runs import import_samples, repository, service
from app.runs.documents import dump_run, export_chunks
from app.runs.schemas import ImportSpec
from app.web.ui.units import format_percent
from evaluation.decisions import MARGIN
from evaluation.exchange import FORMATS


@click.group()
def runs() -> None:
    """List, show, compare, export and finish runs.

    Example:
        bassline runs list
    """


@runs.command("list")
@click.option("--state", type=common.SuggestingChoice(list(RunState)), help="only runs in this state")
@click.option("--name", metavar="TEXT", help="only runs whose name has this text in it")
@click.option("--target", help="only runs of this model")
@click.option("--dataset", help="only runs over this dataset")
@archived_option
@common.limit_option
@common.json_option
def list_(state: str | None, limit: int, json_file: str | None, archived: bool, **filters: Any) -> None:
    """Runs, newest first; archived ones only with --archived.

    Example:
        bassline runs list --state interrupted
        bassline runs list --name nightly
    """
    wanted = repository.RunFilter(states=[RunState(state)] if state else (), archived=archived, **filters)
    ctx = common.open_context()
    with ctx.database.read() as session:
        found = repository.list_runs(session, wanted, limit=limit)
    common.write_json(json_file, [dump_run(run) for run in found])
    rows = []
    for run in found:
        figures = run.measured
        shares = format_percent(figures.pass_first, figures.tasks), format_percent(figures.pass_all, figures.tasks)
        rows.append((run, (f"{figures.tasks}/{run.n_tasks}", *shares)))
    empty_text = "No run matches." if state or any(filters.values()) else "No runs yet: make one with `bassline eval`."
    print_rows(json_file, ("tasks", "Pass@First", "Pass@All"), rows, empty_text)


@runs.command()
@click.argument("run", metavar="ID")
@common.json_option
def show(run: str, json_file: str | None) -> None:
    """Configuration and figures of a run (id, beginning of an id, or name).

    Example:
        bassline runs show demo --json -
    """
    ctx, found = open_and_find_row(repository.find_run, run)
    print_run(ctx, found.id, json_file)


@runs.command()
@click.argument("run", metavar="ID")
@click.option(
    "--format", "form", type=common.SuggestingChoice((*FORMATS, run_file.FORMAT)), default="samples", show_default=True
)
@common.output_option
def export(run: str, form: str, output: str) -> None:
    """The samples of a run, one line each; as `run`, the data that `runs compare` needs, without texts.

    Example:
        bassline runs export demo --format human-eval --output samples.jsonl
        bassline runs export demo --format run --output base.json
    """
    ctx = common.open_context()
    with ctx.database.read() as session:
        found = repository.find_run(session, run)
        is_run = form == run_file.FORMAT
        content = (
            [run_file.format_run_file(session, found).encode()] if is_run else export_chunks(ctx.database, found, form)
        )
    common.write_chunks(output, content)


@runs.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@add_spec_options(ImportSpec, "target", "dataset", "name")
def import_(file: Path, **values: str) -> None:
    """Import samples made elsewhere (format: ours, human-eval's or EvalPlus') as a run; the sandbox here judges them.

    Example:
        bassline runs import samples.jsonl --target gpt-oss-20b
    """
    spec = parse_options(ImportSpec, values)
    data = common.read_bytes(file)
    ctx = common.open_context()
    ctx.make_grader()  # without a sandbox, fail before the samples are stored
    with foreground.hold_workers(ctx, "runs import") as site:
        run = site.wait_for_run(import_samples.submit_import(ctx, spec, data, file.name, **site.options))
    foreground.report_run(ctx, run, None)


@runs.command()
@click.argument("run", metavar="ID")
@common.json_option
def resume(run: str, json_file: str | None) -> None:
    """Finish the remaining tasks of an ended run: in this process, or in `bassline serve` while that has the database.

    Example:
        bassline runs resume 01a1fde0
    """
    ctx, found = open_and_find_row(repository.find_run, run)
    with foreground.hold_workers(ctx, "runs resume") as site:
        service.resume(ctx, found.id, **site.options)
        foreground.report_run(ctx, site.wait_for_run(found.id), json_file)


@runs.command()
@click.argument("reference", metavar="BASE")
@click.argument("other", metavar="NEW")
@click.option(
    "--budget",
    type=float,
    callback=common.check_positive,
    help="seconds; default: the shorter of the two runs' budgets",
)
@click.option(
    "--fail-if-worse",
    is_flag=True,
    help="exit with 3 if NEW is worse than BASE, with 2 if BASE solves too few tasks for any loss to be seen",
)
@click.option(
    "--margin",
    type=float,
    callback=common.check_margin,
    metavar="POINTS",
    help="difference within which two runs are as good (default: 5); with --fail-if-worse: exit with 2 unless NEW is "
    "shown to be at most so many points worse (non-inferiority)",
)
@click.option(
    "--markdown",
    metavar="FILE",
    callback=common.check_writable,
    help="also write a report for a pull request; - for stdout",
)
@common.json_option
def compare(
    reference: str,
    other: str,
    budget: float | None,
    fail_if_worse: bool,
    margin: float | None,
    markdown: str | None,
    json_file: str | None,
) -> None:
    """Compare NEW with BASE at one budget, over the tasks that both have graded.

    Each is a run (id, beginning of an id, or name) or a file FILE.json that `bassline runs export ID --format run`
    wrote. The conclusion is about Pass@First: better, as good within the margin, or undecided.

    Example:
        bassline runs compare plain demo --budget 5
        bassline runs compare base.json candidate --budget 3 --fail-if-worse --markdown report.md
    """
    if markdown == json_file == "-":
        raise BadInputError("only one of markdown and json can be -: give a file for the other", "json")
    ctx = common.open_context()
    with ctx.database.read() as session:
        base, new = (run_file.load_measured_run(ctx, session, given) for given in (reference, other))
        found = compare_runs(session, base, new, budget, MARGIN if margin is None else margin / 100)
        text = format_markdown(found)
        document = found.build_document()
    common.write_json(json_file, document.model_dump(mode="json"))
    if markdown is not None:
        common.write_text(markdown, text)
    _print_comparison(common.choose_console("-" if markdown == "-" else json_file), found)
    if fail_if_worse:
        _require_not_worse(found, has_margin=margin is not None)


add_commands(runs, "run", repository.find_run, service.cancel, service.delete, service.annotate)


class WorseError(BasslineError):
    """`--fail-if-worse`, and the verdict says so."""

    exit_code = 3


def _require_not_worse(found: RunComparison, *, has_margin: bool) -> None:
    if found.conclusion.worse:
        raise WorseError(f"{found.other.name} is worse than {found.reference.name}")
    if found.conclusion.underpowered is not None:
        raise BadInputError(
            f"whether {found.other.name} (B) is worse than {found.reference.name} (A) cannot be decided: "
            f"{found.conclusion.underpowered}"
        )
    if has_margin and (fault := describe_inferiority(found.first)):
        raise BadInputError(fault, "margin")


def _print_comparison(console: Console, found: RunComparison) -> None:
    common.print_line(console, f"{found.other.name} (B) against {found.reference.name} (A, the baseline)")
    common.print_text_table(console, build_figures_table(found))
    for note in filter(None, (describe_speed(found), *describe_notes(found))):
        common.print_line(console, note)
    changes = build_changes_table(found.overlay)
    if changes.rows:
        common.print_text_table(console, changes)
    else:
        console.print("The settings are the same.")
    console.print()
    common.print_line(console, f"{found.conclusion.title}. {found.conclusion.sentence}")
