"""Use cases: check what a user says about a project, and open the job that works on it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.orm import Session

from app.advice.schemas import AdviceJob, AdviceSpec
from app.advice.study import describe_progress, list_ready_models
from app.background.api import JobDocument
from app.background.jobs import make_job, send
from app.background.models import BackgroundJob
from app.core.context import Context
from app.core.db.database import call_after_commit
from app.core.db.types import generate_id
from app.core.errors import BadInputError, NotFoundError
from app.core.remote.target import is_remote
from app.core.settings import Settings
from app.core.states import OPEN_BACKGROUND_JOB_STATES, BackgroundJobState, RunState
from app.datasets import from_code
from app.language_models.service import require_model
from app.runs.service import require_allowed_models
from app.studies.repository import find_study_by_id
from evaluation.from_code.project_tests.requirements import parse_requirements
from evaluation.from_code.reasons import ProjectError
from evaluation.from_code.source.uploaded import unpack_project

KIND = "try_code"
STEPS = {
    "read": "Read the project",
    "tests": "Run its tests to record calls",
    "tasks": "Make tasks",
    "study": "Let the models take turns",
    "answer": "Answer",
}
SANDBOX_COMMANDS = ("python", "python3", "pytest")


@dataclass(frozen=True, slots=True)
class UploadedProject:
    """A project as the user sent it."""

    name: str
    data: bytes


def can_accept_paths(settings: Settings) -> bool:
    """Whether a user may name a folder of this machine: true if `serve` is reachable from this machine only."""
    return settings.embedded and not settings.require_tokens


def submit(ctx: Context, spec: AdviceSpec, archive: UploadedProject | None) -> uuid.UUID:
    """Opens the job for a project in a folder, or in an archive. Returns its id. Raises BadInputError."""
    _check_project(ctx, spec, archive)
    models = _resolve_models(ctx, spec)
    study_id = str(generate_id())  # now, so that a worker that is killed does not submit two
    arguments = {**spec.model_dump(mode="json"), "study_id": study_id, "models": models}
    arguments["archive"] = archive.name if archive else ""
    subject = spec.name or (archive.name if archive else Path(spec.path).name)
    with ctx.database.session() as session:
        job = make_job(KIND, subject, key=study_id, arguments=arguments, input=archive.data if archive else None)
        session.add(job)
        call_after_commit(session, send, ctx, job, job.queue)
    return job.id


def _check_project(ctx: Context, spec: AdviceSpec, archive: UploadedProject | None) -> None:
    """Raises BadInputError for what can be seen without running anything."""
    words = from_code.split_command(spec.tests)
    if spec.name:
        from_code.check_name(spec.name)
    if archive is not None:
        _check_archive(spec, archive, words)
    elif can_accept_paths(ctx.settings):
        _check_folder(spec)
    elif spec.path:
        raise BadInputError(
            "path is for `bassline serve` on your own machine, without tokens: upload an archive instead", "path"
        )
    else:
        raise BadInputError("file is missing: choose an archive of the project", "file")


def _resolve_models(ctx: Context, spec: AdviceSpec) -> list[str]:
    """The models to compare. Raises BadInputError."""
    models = list(dict.fromkeys(spec.target.split())) or list_ready_models(ctx)
    if not models:
        raise BadInputError(
            "target is empty, and no model is in the cache: get one with `bassline models pull qwen2.5-coder-0.5b`",
            "target",
        )
    for model in models:
        require_allowed_models(ctx, model, "none")
        if not is_remote(model):
            require_model(model)
    return models


def _check_archive(spec: AdviceSpec, archive: UploadedProject, words: list[str]) -> None:
    for name in ("path", "python"):
        if getattr(spec, name):
            raise BadInputError(f"{name} is for a project in a folder: leave it empty, or send no archive", name)
    if words[0] not in SANDBOX_COMMANDS:
        raise BadInputError(
            f"tests begins with {words[0][:60]!r}, and the sandbox starts only Python: begin with python or pytest",
            "tests",
        )
    with name_field("file"):
        unpack_project(archive.data, archive.name)
    with name_field("requirements"):
        parse_requirements(spec.requirements)


def _check_folder(spec: AdviceSpec) -> None:
    if not spec.path:
        raise BadInputError("path is missing: give the folder of the project", "path")
    if not Path(spec.path).is_dir():
        raise BadInputError(f"path is {spec.path[:100]!r}: there is no such folder here, give it in full", "path")
    if spec.requirements.strip():
        raise BadInputError(
            "requirements is for an uploaded project: install them where the project's interpreter finds them",
            "requirements",
        )
    find_interpreter(spec)


def find_interpreter(spec: AdviceSpec) -> str:
    """The interpreter of a project in a folder, by default the one in its .venv. Raises BadInputError."""
    own = Path(spec.path) / (spec.python or ".venv/bin/python")
    return from_code.find_interpreter(str(own) if own.is_file() else spec.python or None)


@contextmanager
def name_field(field: str) -> Iterator[None]:
    """Turns a ProjectError in the block into a BadInputError about the field."""
    try:
        yield
    except ProjectError as error:
        raise BadInputError(f"{field}: {error}", field) from None


def describe_job(session: Session, job: BackgroundJob) -> AdviceJob:
    """The work on a project as it is now. Raises NotFoundError for a job of another kind."""
    if job.kind != KIND:
        raise NotFoundError(f"the job {job.id} does {job.kind}: /jobs shows it")
    step, study_id = job.cursor.get("step", "read"), uuid.UUID(job.arguments["study_id"])
    now: dict[str, object] = {}
    study = find_study_by_id(session, study_id)
    if step == "study" and job.state in OPEN_BACKGROUND_JOB_STATES and study is not None:
        done, total, message = describe_progress(session, study)
        now = {"done": done, "total": total, "message": message}
        if study.state is RunState.RUNNING:
            now["state"] = BackgroundJobState.RUNNING  # its row waits for the study
    return AdviceJob(
        job=JobDocument.from_row(job, **now),
        step=step,
        dataset_id=job.cursor.get("dataset_id"),
        study_id=study_id,
        advice=(job.result or {}).get("advice"),
    )
