"""`bassline advise`: from a project to the model to use for it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from app.advice.report import build_report, format_report
from app.advice.study import list_ready_models, make_study_spec
from app.cli import common, foreground, from_code, study_report
from app.cli.options import QuietChoice, add_quiet_options
from app.cli.project_variables import env_option, parse_variables
from app.cli.stored_files import yes_option
from app.core.context import Context
from app.core.errors import BadInputError, BasslineError
from app.core.states import RunState
from app.core.terminal import echo
from app.datasets import service as datasets
from app.datasets.models import Dataset
from app.studies import repository, service
from app.studies.analysis import analyse_study
from app.web.ui.units import format_count


class _ResumeState:
    """What an interrupted command has finished, in a file: its dataset, its study, and how long it has worked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        stored: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            stored = json.loads(path.read_text("utf-8"))
        self.dataset_id: str = stored.get("dataset_id", "")
        self.study_id: str = stored.get("study_id", "")
        self._started: float = time.monotonic() - stored.get("spent_s", 0.0)

    @property
    def spent_s(self) -> float:
        """Seconds of work, also of earlier calls."""
        return time.monotonic() - self._started

    def write(self) -> None:
        """Stores it; killed here, the old state stays."""
        names = ("dataset_id", "study_id", "spent_s")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".part")
        unfinished.write_text(json.dumps({name: getattr(self, name) for name in names}), "utf-8")
        unfinished.replace(self._path)

    def remove(self) -> None:
        """Removes the file: the command has finished."""
        self._path.unlink(missing_ok=True)


@click.command()
@click.argument("project", metavar="PROJECT")
@click.option("--budget", type=click.FloatRange(0.5, 60), default=3.0, show_default=True, help="seconds per answer")
@click.option("--name", help="of the dataset; default: the project's name")
@click.option(
    "--tests", "tests", multiple=True, metavar="COMMAND", default=("python -m pytest -q",), show_default=True,
    help="runs the project's tests; may be repeated",
)  # fmt: skip
@click.option("--python", metavar="FILE", help="the project's interpreter; default: the first python on PATH")
@click.option("--target", "targets", multiple=True, metavar="MODEL", help="default: every model in the cache")
@click.option("--n", type=click.IntRange(1, 16), default=4, show_default=True, help="samples per task")
@click.option(
    "--minutes", type=click.FloatRange(1, 600), default=30.0, show_default=True, help="approximate total minutes"
)
@click.option(
    "--report", metavar="FILE", default="advice.md", show_default=True, callback=common.check_writable,
    help="where the report goes, in Markdown",
)  # fmt: skip
@env_option
@add_quiet_options
@yes_option
@common.json_option
def advise(  # noqa: PLR0913 (click hands each option over by itself)
    project: str,
    budget: float,
    name: str | None,
    tests: tuple[str, ...],
    python: str | None,
    targets: tuple[str, ...],
    n: int,
    minutes: float,
    report: str,
    env: tuple[str, ...],
    json_file: str | None,
    quiet: QuietChoice,
    assume_yes: bool,
) -> None:
    """Say which model to use for a project: makes tasks of its code, and lets the models take turns over them.

    The smaller models go first, and one that is certain to lose is dropped. The number of tasks is what the minutes
    allow. A stopped command resumes when it is given again.

    Example:
        bassline advise ./myproject --budget 3
        bassline advise ./myproject --target qwen2.5-coder-0.5b --target smollm2-135m --minutes 60
    """
    ctx = common.open_context()
    models = list(targets) or list_ready_models(ctx)
    if not models:
        raise BadInputError(
            "no model is in the cache: get one with `bassline models pull qwen2.5-coder-0.5b`", "target"
        )
    asked = [str(Path(project).absolute()), budget, name, tests, python, models, n, minutes, *sorted(env)]
    state = _ResumeState(_choose_state_path(ctx, asked))
    request = from_code.DatasetRequest(
        project, tests, name=name, python=python, environment=parse_variables(env), assume_yes=assume_yes
    )
    try:
        dataset = _prepare_dataset(ctx, state, request)
        state.dataset_id = str(dataset.id)
        state.write()
        study_id = _run_study(ctx, state, dataset, models, budget, n, 60.0 * minutes, quiet)
    finally:  # also after Ctrl-C
        state.write()
    with ctx.database.read() as session:
        study = repository.get_study(session, study_id)
        found = build_report(session, study, analyse_study(session, study))
    common.write_text(report, format_report(found))
    state.remove()
    common.write_json(
        json_file,
        {
            "advice": found.sentence,
            "dataset": dataset.name,
            "failed_samples": asdict(found.failed),
            "study": found.document.model_dump(mode="json"),
        },
    )
    console = common.choose_console(json_file)
    console.print()
    console.print(found.sentence, soft_wrap=True, highlight=False)
    console.print(
        f"The report is in {report}. `bassline serve` shows the study at /studies/{study_id} and the tasks at "
        f"/datasets/{dataset.id}.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip


def _choose_state_path(ctx: Context, asked: Sequence[Any]) -> Path:
    name = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:24]
    return Path(ctx.settings.data_dir) / "advise" / f"{name}.json"


def _prepare_dataset(ctx: Context, state: _ResumeState, request: from_code.DatasetRequest) -> Dataset:
    """The dataset of the project: the one that an interrupted command made, or a new one."""
    if state.dataset_id:
        known = datasets.find_dataset(ctx, uuid.UUID(state.dataset_id))
        if known is not None:
            echo(f"resumed: the dataset {known.name} is made", err=True)
            return known
    stored = from_code.make_datasets(ctx, request)
    found = datasets.find_dataset(ctx, stored[0].id)
    assert found is not None
    return found


def _run_study(
    ctx: Context, state: _ResumeState, dataset: Dataset, models: list[str], budget: float, n: int, seconds: float,
    quiet: QuietChoice,
) -> uuid.UUID:  # fmt: skip
    """The id of the finished study of the models over the dataset."""
    ctx.make_grader()  # without a sandbox, fail before decoding
    with foreground.hold_workers(ctx, "advise") as site:
        if state.study_id and _has_study(ctx, state.study_id):
            study_id = uuid.UUID(state.study_id)
            if study_report.build_study_document(ctx, study_id).study.state is not RunState.FINISHED:
                echo("resumed: the study continues", err=True)
                service.resume(ctx, study_id, **site.options)
                service.set_quiet_limit(ctx, study_id, quiet.get_limit_s())
                site.wait_for_study(study_id)
        else:
            spec = make_study_spec(dataset, models, budget, n, seconds - state.spent_s, quiet.get_limit_s())
            left = dataset.n_tasks - len(spec.task_ids)
            more = f"; {left} more are left out: weak, unstated, or beyond the minutes given" if left else ""
            arms = format_count(len(spec.arms), "configuration")
            echo(f"{format_count(len(spec.task_ids), 'task')} for {arms}{more}", err=True)
            study_id = site.submit_study(spec)
            state.study_id = str(study_id)
            state.write()
            site.wait_for_study(study_id)
    ended = study_report.build_study_document(ctx, study_id).study.state
    if ended is not RunState.FINISHED:
        raise BasslineError(f"the study ended as {ended}; the same command resumes")
    return study_id


def _has_study(ctx: Context, study_id: str) -> bool:
    with ctx.database.read() as session:
        return repository.find_study_by_id(session, uuid.UUID(study_id)) is not None
