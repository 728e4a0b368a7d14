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
from app.advice.schemas import AdviceSpec
from app.advice.study import list_ready_models, make_study_spec
from app.cli import common, foreground, from_code
from app.cli.options import QuietChoice, add_quiet_options, add_spec_options, parse_options
from app.cli.project_options import env_option, parse_variables, yes_option
from app.core.context import Context
from app.core.errors import BadInputError, BasslineError
from app.core.states import RunState
from app.core.terminal import echo
from app.datasets import service as datasets
from app.studies import repository, service
from app.studies.analysis import analyse_study
from app.studies.models import Study
from app.studies.schemas import StudySpec
from app.web.ui.units import format_count


@click.command()
@click.argument("project", metavar="PROJECT")
@add_spec_options(AdviceSpec, "budget_s", "name", "n", "minutes")
@click.option(
    "--tests", "tests", multiple=True, metavar="COMMAND", default=("python -m pytest -q",), show_default=True,
    help="runs the project's tests; may be repeated",
)  # fmt: skip
@click.option("--python", metavar="FILE", help="the project's interpreter; default: the first python on PATH")
@click.option("--target", "targets", multiple=True, metavar="MODEL", help="default: every model in the cache")
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
    tests: tuple[str, ...],
    python: str | None,
    targets: tuple[str, ...],
    report: str,
    env: tuple[str, ...],
    json_file: str | None,
    quiet: QuietChoice,
    assume_yes: bool,
    **options: Any,
) -> None:
    """Say which model to use for a project: makes tasks of its code, and lets the models take turns over them.

    The smaller models go first, and one that is certain to lose is dropped. The number of tasks is what the minutes
    allow. A stopped command resumes when it is given again.

    Example:
        bassline advise ./myproject --budget 3
        bassline advise ./myproject --target qwen2.5-coder-0.5b --target smollm2-135m --minutes 60
    """
    asked = parse_options(AdviceSpec, options)
    ctx = common.open_context()
    models = list(targets) or list_ready_models(ctx)
    if not models:
        raise BadInputError(
            "no model is in the cache: get one with `bassline models pull qwen2.5-coder-0.5b`", "target"
        )
    everything = [str(Path(project).absolute()), tests, python, models, sorted(env), asked.model_dump(mode="json")]
    study_file = _choose_study_file(ctx, everything)
    study = _find_begun_study(ctx, study_file)
    ctx.make_grader()  # without a sandbox, fail before the tests run
    if study is None:
        request = from_code.DatasetRequest(
            project, tests, name=asked.name, python=python, environment=parse_variables(env), assume_yes=assume_yes
        )
        spec = _plan_study(ctx, request, asked, models, quiet.get_limit_s())
    with foreground.hold_workers(ctx, "advise") as site:
        if study is None:
            study_id = site.submit_study(spec)
            study_file.parent.mkdir(parents=True, exist_ok=True)
            study_file.write_text(str(study_id), "utf-8")
        else:
            study_id = study.id
            echo(f"resumed: the dataset {study.dataset.name} is made, and its study continues", err=True)
            if study.state is not RunState.FINISHED:
                service.resume(ctx, study_id, **site.options)
                service.set_quiet_limit(ctx, study_id, quiet.get_limit_s())
        site.wait_for_study(study_id)
    with ctx.database.read() as session:
        study = repository.get_study(session, study_id)
        if study.state is not RunState.FINISHED:
            raise BasslineError(f"the study ended as {study.state}; the same command resumes")
        found = build_report(session, study, analyse_study(session, study))
    common.write_text(report, format_report(found))
    study_file.unlink()
    common.write_json(
        json_file,
        {
            "advice": found.sentence,
            "dataset": study.dataset.name,
            "failed_samples": asdict(found.failed),
            "study": found.document.model_dump(mode="json"),
        },
    )
    console = common.choose_console(json_file)
    console.print()
    console.print(found.sentence, soft_wrap=True, highlight=False)
    console.print(
        f"The report is in {report}. `bassline serve` shows the study at /studies/{study_id} and the tasks at "
        f"/datasets/{study.dataset_id}.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip


def _choose_study_file(ctx: Context, asked: Sequence[Any]) -> Path:
    """The file in which this command with these options notes its study, so that the same command resumes it."""
    name = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:24]
    return Path(ctx.settings.data_dir) / "advise" / name


def _find_begun_study(ctx: Context, file: Path) -> Study | None:
    with contextlib.suppress(OSError, ValueError), ctx.database.read() as session:
        return repository.find_study_by_id(session, uuid.UUID(file.read_text("utf-8")))
    return None


def _plan_study(
    ctx: Context, request: from_code.DatasetRequest, asked: AdviceSpec, models: list[str], quiet_limit_s: float | None
) -> StudySpec:
    """Makes the project's dataset, and plans a study that fits into the rest of the minutes."""
    started = time.monotonic()
    dataset = datasets.find_dataset(ctx, from_code.make_datasets(ctx, request)[0].id)
    assert dataset is not None
    left_s = 60.0 * asked.minutes - (time.monotonic() - started)
    spec = make_study_spec(dataset, models, asked.budget_s, asked.n, left_s, quiet_limit_s)
    left = dataset.n_tasks - len(spec.task_ids)
    more = f"; {left} more are left out: weak, unstated, or beyond the minutes given" if left else ""
    arms = format_count(len(spec.arms), "configuration")
    echo(f"{format_count(len(spec.task_ids), 'task')} for {arms}{more}", err=True)
    return spec
