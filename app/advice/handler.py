"""The job that tries models on a project: records its tests, makes tasks, submits a study, and reads its answer.

The study runs like any other. Meanwhile the job waits in its queue without a message, so it holds no worker.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.orm import undefer

from app.advice.report import build_report
from app.advice.schemas import AdviceSpec
from app.advice.service import KIND, STEPS, UploadedProject, find_interpreter
from app.advice.study import describe_progress, make_study_spec
from app.background.handlers import Handler, JobAttempt, UnfinishedError
from app.background.models import BackgroundJob
from app.core.context import Context
from app.core.db.types import get_utc_time
from app.core.errors import BadInputError, BasslineError, UnavailableError
from app.core.ports import detect_sandbox
from app.core.states import OPEN_RUN_STATES, BackgroundJobState, RunState
from app.datasets import from_code
from app.datasets import service as datasets
from app.studies import service as studies
from app.studies.analysis import analyse_study
from app.studies.models import Study
from app.studies.repository import find_study_by_id, get_study
from app.web.ui.units import format_seconds
from evaluation.from_code import run
from evaluation.from_code.build import Options, TaskResult
from evaluation.from_code.calls.commands import resolve_command
from evaluation.from_code.calls.confined import Confinement
from evaluation.from_code.calls.record import N_RUNS
from evaluation.from_code.project_tests.requirements import install_packages, parse_requirements
from evaluation.from_code.reasons import ProjectError, SandboxFaultError
from evaluation.from_code.run import FinishedDataset
from evaluation.from_code.source.project import Project, open_project
from evaluation.from_code.source.uploaded import check_sources, derive_name, unpack_project, write_project
from evaluation.sandbox import Sandbox
from evaluation.sandbox.interpreter import NOBODY, get_dropped_identity

STEP_S = 2.0  # progress is stored this often; results of functions are in files
LIMIT_S = 300.0
"""Time limit of one run of the tests; both runs together stay below the broker's message timeout."""
_SHOWN_REASONS = 3


class TryCode(Handler):
    """Resumes at the dataset, at the study, or at the functions that are not yet checked."""

    kind = KIND

    def run(self, job: BackgroundJob, attempt: JobAttempt) -> dict[str, Any]:
        """The result has the sentence, and the ids of dataset and study."""
        given = {name: value for name, value in job.arguments.items() if name in AdviceSpec.model_fields}
        spec = AdviceSpec.model_validate(given)
        attempt.ctx.make_grader()  # without a sandbox, fail before the tests run
        if "dataset_id" not in attempt.cursor:
            _save(attempt, dataset_id=str(_make_dataset(job, attempt, spec)))
            _remove_files(attempt.ctx, job)
        study = _run_study(job, attempt, spec)
        _begin_step(attempt, "answer", "Reading what the study says")
        with attempt.ctx.database.read() as session:
            study = get_study(session, study.id)
            report = build_report(session, study, analyse_study(session, study))
        dataset_id = attempt.cursor["dataset_id"]
        return {"advice": report.sentence, "dataset_id": dataset_id, "study_id": str(study.id)}

    def must_wait(self, ctx: Context, job: BackgroundJob) -> bool:
        """Returns whether the study is still open."""
        study = _find_study(ctx, uuid.UUID(job.arguments["study_id"]))
        return study is not None and study.state in OPEN_RUN_STATES

    def on_job_end(self, ctx: Context, job: BackgroundJob) -> None:
        """Removes the files of the work on tasks."""
        _remove_files(ctx, job)

    def discard(self, ctx: Context, job: BackgroundJob) -> None:
        """Cancels the study, which a retry resumes."""
        study = _find_study(ctx, uuid.UUID(job.arguments["study_id"]))
        if study is not None and study.state in OPEN_RUN_STATES:
            studies.cancel(ctx, study.id)
            with ctx.database.session() as session:
                row = session.get_one(BackgroundJob, job.id)
                row.cursor = {**row.cursor, "watched": False}


def _remove_files(ctx: Context, job: BackgroundJob) -> None:
    for folder in (_find_state_folder(ctx, job), find_archive_folder(job.id)):
        shutil.rmtree(folder, ignore_errors=True)


def _begin_step(attempt: JobAttempt, name: str, message: str) -> None:
    attempt.report(0, 0, message)
    order = list(STEPS)
    if "step" not in attempt.cursor or order.index(name) > order.index(
        attempt.cursor["step"]
    ):  # a retry reads once more
        _save(attempt, step=name)


def _save(attempt: JobAttempt, /, **changes: Any) -> None:
    attempt.cursor |= changes
    attempt.save()


def _make_dataset(job: BackgroundJob, attempt: JobAttempt, spec: AdviceSpec) -> uuid.UUID:
    """The stored dataset of the project. Raises BasslineError."""
    ctx = attempt.ctx
    sandbox = detect_sandbox(ctx.settings.packages, "so no task can be checked")
    _begin_step(attempt, "read", "Reading the project, and getting the packages of its tests")
    try:
        prepared = _open_project(ctx, job, spec, sandbox)
        _begin_step(attempt, "tests", "Running the tests")
        finished = _build(job, attempt, prepared, sandbox)
    except ProjectError as error:
        raise BadInputError(str(error)) from None
    except SandboxFaultError as error:
        raise UnavailableError(f"{error}: retry the job") from None
    if not finished.result.completion:
        raise BasslineError(_explain_no_task(finished))
    return from_code.store_datasets(ctx, finished, spec.name or prepared.project.name)[0].id


def _open_project(ctx: Context, job: BackgroundJob, spec: AdviceSpec, sandbox: Sandbox) -> PreparedProject:
    name = job.arguments["archive"]
    if not name:
        return open_folder(spec)
    with ctx.database.read() as session:
        stored = session.get_one(BackgroundJob, job.id, options=[undefer(BackgroundJob.input)])
    if stored.input is None:
        raise BadInputError(f"{name} is not stored any more: upload it again")
    return open_archive(spec, UploadedProject(name, stored.input), find_archive_folder(job.id), sandbox)


def _build(job: BackgroundJob, attempt: JobAttempt, prepared: PreparedProject, sandbox: Sandbox) -> FinishedDataset:
    project, commands, options = prepared.project, [prepared.command], prepared.options
    from_code.check_name(job.arguments["name"] or project.name)
    folder = _find_state_folder(attempt.ctx, job)
    state = from_code.find_state(folder, sandbox, project, commands, options)
    return run.build_dataset(
        sandbox, project, commands, state, options, _Watcher(attempt), attempt.ctx.settings.exec_workers,
        confinement=prepared.confinement,
    )  # fmt: skip


def _find_state_folder(ctx: Context, job: BackgroundJob) -> Path:
    return ctx.settings.data_dir / "try" / str(job.id)


def _explain_no_task(finished: FinishedDataset) -> str:
    reasons = Counter(each["reason"] for each in from_code.list_left_out(finished)).most_common(_SHOWN_REASONS)
    said = "; ".join(f"{number} {reason}" for reason, number in reasons)
    tests = f"; its tests {finished.recording.failure}" if finished.recording.failure else ""
    return f"no function of {finished.project.name} became a task: {said}{tests}"


@dataclass
class _Watcher:
    """Stores how far the work on tasks is, and stops it where the job is not wanted."""

    attempt: JobAttempt
    began: float = field(default_factory=time.monotonic)
    resumed: int = 0

    def on_recording(self, _commands: Sequence[Sequence[str]], passed_s: float) -> None:
        left_s = N_RUNS * LIMIT_S - passed_s
        message = (
            f"{format_seconds(round(passed_s))} of tests, which run twice; at most {format_seconds(round(left_s))} left"
        )
        self.attempt.report(0, 0, message)
        self.attempt.require_wanted(within_turn=False)

    def on_testing(self, done: int, total: int) -> None:
        self.attempt.report(done, total, "files of tests in the sandbox")
        self.attempt.require_wanted(within_turn=False)

    def on_checking(self, done: int, total: int, made: TaskResult | None) -> None:
        if made is None:
            self.began, self.resumed = time.monotonic(), done
            self.attempt.begin_turn()
            _begin_step(self.attempt, "tasks", "functions checked")
        pace_s = (time.monotonic() - self.began) / max(1, done - self.resumed)
        left = f", about {format_seconds(round(pace_s * (total - done)))} left" if self.resumed < done < total else ""
        self.attempt.report(done, total, f"functions checked{left}")
        if made is not None and self.attempt.seconds_since_save >= STEP_S:
            _save(self.attempt, made=done)


def _run_study(job: BackgroundJob, attempt: JobAttempt, spec: AdviceSpec) -> Study:
    """The study, once it has finished. Raises UnfinishedError while it works, BasslineError if it ended otherwise."""
    ctx, study_id = attempt.ctx, uuid.UUID(job.arguments["study_id"])
    _begin_step(attempt, "study", "Loading the models")
    study = _find_study(ctx, study_id)
    if study is not None and study.state is RunState.FINISHED:
        return study
    if study is None:
        _submit_study(job, attempt, spec, study_id)
    elif study.state in OPEN_RUN_STATES:
        with ctx.database.read() as session:
            attempt.report(*describe_progress(session, study))
    elif attempt.cursor.get("watched"):
        _save(attempt, watched=False)
        errors = "; ".join(dict.fromkeys(run.error for run in study.runs if run.error))
        raise BasslineError(f"the study ended as {study.state}: {errors or 'its page says why'}; a retry resumes it")
    else:
        studies.resume(ctx, study_id)
    if not attempt.cursor.get("watched"):
        _save(attempt, watched=True)
    raise UnfinishedError(BackgroundJobState.QUEUED, waits=True)


def _find_study(ctx: Context, study_id: uuid.UUID) -> Study | None:
    with ctx.database.read() as session:
        return find_study_by_id(session, study_id)


def _submit_study(job: BackgroundJob, attempt: JobAttempt, spec: AdviceSpec, study_id: uuid.UUID) -> None:
    ctx, models = attempt.ctx, job.arguments["models"]
    dataset = datasets.find_dataset(ctx, uuid.UUID(attempt.cursor["dataset_id"]))
    if dataset is None:
        raise BasslineError("the dataset of the project has been deleted: try the project again")
    passed_s = (get_utc_time() - job.started_at).total_seconds() if job.started_at else 0.0
    left_s = 60.0 * spec.minutes - passed_s
    asked = make_study_spec(dataset, models, spec.budget_s, spec.n, left_s, spec.quiet_limit_s)
    studies.submit(ctx, asked, study_id=study_id)


@dataclass(frozen=True, slots=True)
class PreparedProject:
    """A project with the command of its tests; with a `confinement` they run in the sandbox alone."""

    project: Project
    command: list[str]
    options: Options
    confinement: Confinement | None


def open_folder(spec: AdviceSpec) -> PreparedProject:
    """A folder of this machine, whose tests run as its user runs them. Raises ProjectError, BadInputError."""
    python = find_interpreter(spec)
    command = resolve_command(from_code.split_command(spec.tests), python)
    return PreparedProject(open_project(spec.path), command, Options(limit_s=LIMIT_S, python=python), None)


def open_archive(spec: AdviceSpec, archive: UploadedProject, folder: Path, sandbox: Sandbox) -> PreparedProject:
    """An archive, written into the folder with the packages that its tests need.

    A folder that is complete is used as it is. Raises ProjectError.
    """
    packages, complete = folder / "site-packages", folder / "complete"
    project = folder / "source" / derive_name(archive.name)
    confinement = Confinement(sandbox, packages)
    confinement.require_namespaces()
    if not (complete.is_file() and folder.stat().st_uid in (os.geteuid(), NOBODY)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        write_project(unpack_project(archive.data, archive.name), project)
        check_sources(project)
        install_packages(parse_requirements(spec.requirements), packages, sandbox.python.version[:2])
        if get_dropped_identity():  # the sandbox runs as another user, who alone may enter
            os.chown(folder, NOBODY, NOBODY)
        complete.touch()
    command = confinement.resolve(spec.tests)
    return PreparedProject(open_project(str(project)), command, Options(limit_s=LIMIT_S), confinement)


def find_archive_folder(job_id: object) -> Path:
    """Where the archive of a job is written: not in the data folder, which the sandbox's user may not enter."""
    return Path(tempfile.gettempdir()) / f"bassline-sent-{job_id}"
