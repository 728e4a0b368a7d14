"""`bassline datasets from-code`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import click
from rich.console import Console

from app.cli import common, foreground
from app.cli.options import name_option_in_errors
from app.cli.progress import JobBar
from app.cli.project_options import confirm_stored_files, env_option, parse_variables, set_variables, yes_option
from app.core.context import Context as AppContext
from app.core.errors import BadInputError, BasslineError
from app.core.ports import detect_sandbox
from app.core.terminal import echo
from app.datasets import from_code as service
from app.datasets.models import Dataset
from app.web.ui.units import format_count, join_first
from evaluation.from_code.build import Options
from evaluation.from_code.calls import record
from evaluation.from_code.calls.commands import resolve_command
from evaluation.from_code.coverage import Coverage
from evaluation.from_code.reasons import ProjectError, SandboxFaultError
from evaluation.from_code.run import FinishedDataset
from evaluation.from_code.source.context import CONTEXTS, Context
from evaluation.from_code.source.project import Project, open_project

_SHOWN_PATHS = 8
_SHOWN_FAILURES = 3


@click.command("from-code")
@click.argument("project", metavar="PROJECT")
@click.option("--name", help="of the dataset; default: the project's name")
@click.option("--tests", "tests", multiple=True, metavar="COMMAND", help="runs the project's tests; may be repeated")
@click.option("--doctests", is_flag=True, help="run the examples in the docstrings too, or instead")
@click.option(
    "--python",
    metavar="FILE",
    help="the project's interpreter, which runs its tests; default: the first python on PATH",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=900.0,
    show_default=True,
    help="seconds of a command, each time",
)
@click.option(
    "--judge", type=click.Choice(["auto", "cases", "tests"]), default="auto", show_default=True,
    help="recorded calls (cases), the project's own tests, or auto: tests where recorded calls cannot judge",
)  # fmt: skip
@click.option(
    "--context", type=click.Choice(CONTEXTS), default=Options().context, show_default=True,
    help="what a prompt of the completion form shows: the function with what it names, the file, or also what the "
    "file imports from the project",
)  # fmt: skip
@env_option
@yes_option
@common.json_option
def from_code(  # noqa: PLR0913 (click hands each option over by itself)
    project: str,
    name: str | None,
    tests: tuple[str, ...],
    doctests: bool,
    python: str | None,
    timeout: float,
    judge: str,
    context: Context,
    env: tuple[str, ...],
    assume_yes: bool,
    json_file: str | None,
) -> None:
    """Make a dataset of a Python project: its functions are the tasks, their behaviour in its tests is the test.

    PROJECT is a folder. Its tests run as they do when you run them, outside the sandbox; everything else runs inside.
    Two datasets are stored: NAME, whose prompts end where the body begins, and NAME-infill, with the real file before
    and after the body. In both, answers are judged in their real module. A stopped run resumes.

    Example:
        bassline datasets from-code ./myproject --name mine --tests "python -m pytest -q"
        bassline datasets from-code ./myproject --doctests --python .venv/bin/python
    """
    options = Options(limit_s=timeout, context=context, judge=judge)
    asked = DatasetRequest(
        project, tests, name=name, doctests=doctests, python=python, options=options, environment=parse_variables(env),
        json_file=json_file, assume_yes=assume_yes,
    )  # fmt: skip
    make_datasets(common.open_context(), asked)


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    """The options of the command: how a project's datasets are built and reported."""

    project: str
    tests: tuple[str, ...]
    _: KW_ONLY
    name: str | None = None
    doctests: bool = False
    python: str | None = None
    options: Options = field(default_factory=Options)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    json_file: str | None = None
    assume_yes: bool = False


def make_datasets(ctx: AppContext, asked: DatasetRequest) -> list[Dataset]:
    """Make, store and print the datasets of a project; both, the completion form first. Raises BasslineError."""
    with name_option_in_errors():
        interpreter = service.find_interpreter(asked.python)
    options = replace(asked.options, python=interpreter if asked.python else "")
    json_file = asked.json_file
    try:
        found = open_project(asked.project)
        commands = _build_commands(found, asked.tests, asked.doctests, interpreter, options.python)
        name = asked.name or found.name
        service.check_name(name)
        if options.judge != "cases":
            options = replace(options, store_secrets=confirm_stored_files(found, asked.assume_yes))
        finished = _run_from_code(ctx, found, commands, options, asked.environment)
    except ProjectError as error:
        raise BadInputError(str(error)) from None
    _report_test_end(finished)
    if not finished.result.completion:
        common.write_json(json_file, service.build_report(finished, [], service.Recheck()))
        _show(finished, [], json_file)
        raise BasslineError(f"no function of {found.name} became a task: the reasons are above")
    stored = service.store_datasets(ctx, finished, name)
    if json_file is not None:
        common.write_json(json_file, service.build_report(finished, stored, _recheck_tasks(ctx, stored)))
    finished.state.remove()  # interrupted before, the same command resumes
    _show(finished, stored, json_file)
    return stored


def _recheck_tasks(ctx: AppContext, stored: list[Dataset]) -> service.Recheck:
    """What the report counts: the stored tasks, judged once more as answers are."""
    with JobBar() as bar:
        checked = service.recheck_stored_tasks(ctx, stored, bar.report_part)
    for ids, what in (
        (checked.originals_failed, "do not pass with their own solution"),
        (checked.trivial_passed, "pass with a body without content"),
    ):
        if ids:
            echo(f"{format_count(len(ids), 'task')} {what}: {join_first(ids, _SHOWN_PATHS)}", err=True)
    return checked


def _build_commands(
    project: Project, tests: tuple[str, ...], doctests: bool, python: str, tests_python: str
) -> list[list[str]]:
    with name_option_in_errors():
        commands = [service.split_command(command) for command in tests]
    if tests_python:
        commands = [resolve_command(command, tests_python) for command in commands]
    if doctests:
        commands.append(record.build_doctest_command(python, project))
    if not commands:
        raise BadInputError(
            'tasks are made of what functions do while tests run: give --tests "python -m pytest -q", or --doctests',
            "tests",
        )
    return commands


def _run_from_code(
    ctx: AppContext,
    project: Project,
    commands: list[list[str]],
    options: Options,
    environment: Mapping[str, str | None],
) -> FinishedDataset:
    sandbox = detect_sandbox(ctx.settings.packages, "so no task can be checked")
    warning = (
        f"runs the project's own code in {project.root}, with your rights and outside the sandbox: "
        f"{', then '.join(map(shlex.join, commands))}"
    )
    try:
        with foreground.treat_sigterm_as_interrupt(), set_variables(environment), JobBar() as bar:
            return service.build_dataset(
                ctx, sandbox, project, commands, options, environment, lambda: bar.note(warning), bar.report
            )
    except KeyboardInterrupt:
        raise BasslineError("stopped; the same command resumes") from None
    except SandboxFaultError as error:
        raise BasslineError(f"{error}; the same command resumes") from None


def _report_test_end(finished: FinishedDataset) -> None:
    recording = finished.recording
    if recording.failure:
        echo(f"the project's tests {recording.failure}; their calls until then count. Their last lines:", err=True)
        for line in recording.last_lines:
            echo(f"    {line}", err=True)
    if ended := recording.covering.ended:
        echo(
            f"{format_count(len(ended), 'test')} hung and were stopped after {record.QUIET_S:g} s: "
            f"{join_first(ended, _SHOWN_FAILURES)}",
            err=True,
        )
    for name, reason in recording.unread.items():
        echo(f"not read: {name}, in the folder of recorded calls, {reason}", err=True)


def _show(finished: FinishedDataset, stored: list[Dataset], json_file: str | None) -> None:
    console = common.choose_console(json_file)
    coverage, project, suite = finished.compute_coverage(), finished.project, finished.suite
    if coverage.left_out:
        console.print(
            f"\nleft out: {coverage.functions_seen - coverage.tasks} of {coverage.functions_seen} functions, by reason"
        )
        left_out = [(str(each.functions), each.reason, each.unlock) for each in coverage.left_out]
        console.print(common.build_table(("functions", "reason", "what would make them tasks"), left_out))
        console.print("--json names them, and so does the page of the dataset")
    for path, reason in project.unread.items():
        console.print(f"not read: {path}: {reason}")
    for reason in dict.fromkeys(project.skipped.values()):
        paths = [path for path, why in project.skipped.items() if why == reason]
        console.print(f"skipped, {reason}: {join_first(paths, _SHOWN_PATHS)}")
    _print_totals(console, [row["source"] for row in finished.result.completion], coverage)
    if suite.refused:
        console.print(f"the project's own tests judge no task: {suite.refused}")
    elif suite.failures:
        console.print(f"{format_count(len(suite.failures), 'test')} did not pass in the sandbox, such as:")
        for test, text in list(suite.failures.items())[:_SHOWN_FAILURES]:
            last_line = text.strip().rpartition("\n")[2]
            console.print(f"    {test}: {last_line[:160]}")
    for dataset in stored:
        console.print(f"{dataset.name}: {format_count(dataset.n_tasks, 'task')}, sha256 {dataset.sha256}")


def _print_totals(console: Console, sources: list[dict[str, Any]], coverage: Coverage) -> None:
    weak = sum(bool(source["weak"]) for source in sources)
    unstated = sum(bool(source["unstated"]) for source in sources)
    by_tests = sum(source.get("judge") == "tests" for source in sources)
    console.print(
        f"\n{format_count(len(sources), 'task')}: {len(sources) - by_tests} judged by recorded calls, {by_tests} by "
        f"the project's own tests; runs leave out {weak} with a weak test (it misses a mutant, or has few calls) and "
        f"{unstated} whose tests ask for more than their prompt states"
    )
    console.print(
        f"{100 * coverage.covered_share:.0f} % of the {format_count(coverage.functions_called, 'function')} that the "
        f"tests call became tasks, with {100 * coverage.lines_share:.0f} % of their lines; "
        f"the project has {coverage.functions_seen} in all"
    )
