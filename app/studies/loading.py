"""Studies that were measured elsewhere, stored from their archives: to read and compare, never to go on with."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.background.handlers import JobAttempt
from app.background.jobs import open_job
from app.background.models import BackgroundJob
from app.background.work import run_job_or_cancel
from app.core.context import Context
from app.core.db.types import generate_id, get_utc_time
from app.core.errors import BadInputError, NotFoundError
from app.core.states import RunState, TaskState
from app.datasets import repository, service
from app.datasets.models import Dataset
from app.runs import figures, hidden_runs
from app.runs.configuration import get_option_columns
from app.runs.models import Calibration, Run
from app.runs.repository import get_run
from app.runs.schemas import RunSpec
from app.studies import archive
from app.studies.archive import ArchiveArm, StudyArchive
from app.studies.models import ARM, Study, StudyArm
from app.web.http.schemas import LONGEST_ECHO

# In a checkout, and in an installed package (see pyproject.toml).
REFERENCE_FOLDERS = (Path(__file__).parents[2] / "docs" / "results", Path(__file__).parent / "reference")


def load_study(ctx: Context, data: bytes, origin: str) -> uuid.UUID:
    """Stores the study in a file's bytes with its runs. Returns its id; one that is here already stays as it is.

    The runs have ended, are marked as measured elsewhere and cannot be resumed. Raises BadInputError, which calls the
    file `origin`, before anything is stored.
    """
    found = archive.parse_archive(data, origin)
    try:
        dataset = _require_dataset(ctx, found)
        _check_archive(found, dataset)
    except BadInputError as error:
        raise BadInputError(f"{origin}: {error}", "file") from None
    if not _is_stored(ctx, found.id):
        arguments = {"origin": origin, "run_ids": [str(generate_id()) for _ in found.arms]}
        try:
            run_job_or_cancel(
                ctx, open_job(ctx, LoadStudy.kind, found.name, key=str(found.id), arguments=arguments, input=data)
            )
        except IntegrityError:
            if not _is_stored(ctx, found.id):  # else another process has loaded it
                raise
    return found.id


class LoadStudy(hidden_runs.ImportHandler):
    """Stores the study in a file that `load_study` has checked: the run of each arm, then all of them are shown."""

    kind = "import_archive"

    def run(self, job: BackgroundJob, attempt: JobAttempt) -> dict[str, Any]:
        """Stores the arms that no earlier attempt has."""
        found = archive.parse_archive(job.input or b"", job.arguments["origin"])
        dataset, run_ids = (
            _require_dataset(attempt.ctx, found),
            [uuid.UUID(run_id) for run_id in job.arguments["run_ids"]],
        )
        for number in range(attempt.cursor.get("arms", 0), len(found.arms)):
            _store_hidden(attempt, found, run_ids[number], found.arms[number], dataset)
        attempt.on_finish = partial(_store_study, found, dataset, run_ids)
        return {"study_id": str(found.id)}


def list_reference_files() -> list[Path]:
    """The archives of the reference studies that this installation has."""
    return sorted(file for folder in REFERENCE_FOLDERS for file in folder.glob("*.json.gz"))


def has_unloaded_reference(ctx: Context) -> bool:
    """Whether this installation has a reference study that is not in the database."""
    with ctx.database.read() as session:
        return any(session.get(Study, _read_study_id(file)) is None for file in list_reference_files())


def load_reference_studies(ctx: Context) -> list[uuid.UUID]:
    """Loads the packaged reference studies. Returns their ids. Raises NotFoundError where none is packaged."""
    files = list_reference_files()
    if not files:
        raise NotFoundError("there is no reference study in this installation: give a file of `bassline study export`")
    return [load_study(ctx, file.read_bytes(), file.name) for file in files]


@cache
def _read_study_id(file: Path) -> uuid.UUID:
    """The id of the study in a packaged file, which does not change while the process lives."""
    return archive.parse_archive(file.read_bytes(), file.name).id


def _require_dataset(ctx: Context, found: StudyArchive) -> Dataset:
    """The dataset with the content that the study was measured over, with its tasks."""
    with ctx.database.read() as session:
        dataset = repository.find_by_content(session, found.dataset, found.dataset_sha256)
    dataset = dataset or service.require_dataset(ctx, found.dataset)
    if dataset.sha256 != found.dataset_sha256:
        raise BadInputError(
            f"the study used {found.dataset} {found.dataset_sha256[:8]}, but this database has {dataset.sha256[:8]}: "
            "import the dataset that the study is over"
        )
    return dataset


def _check_archive(found: StudyArchive, dataset: Dataset) -> None:
    """Raises BadInputError for what the form of the file allows and no study can have."""
    task_ids = {task.task_id for task in dataset.tasks}
    _refuse_duplicates([arm.name for arm in found.arms], "the name of arm")
    for arm in found.arms:
        n = arm.configuration.n
        _refuse_duplicates([task.task_id for task in arm.tasks], f"arm {arm.name!r}: task")
        if len(arm.tasks) > arm.n_tasks:
            raise BadInputError(f"arm {arm.name!r}: n_tasks is {arm.n_tasks}, and {len(arm.tasks)} are finished")
        if arm.n_tasks > len(task_ids):
            raise BadInputError(f"arm {arm.name!r}: n_tasks is {arm.n_tasks}, and the dataset has {len(task_ids)}")
        if arm.dropped_by is not None and arm.dropped_by >= len(found.arms):
            raise BadInputError(
                f"arm {arm.name!r}: dropped_by is {arm.dropped_by}, and there are {len(found.arms)} arms"
            )
        for task in arm.tasks:
            where = f"arm {arm.name!r}, task {task.task_id[:LONGEST_ECHO]!r}"
            if task.task_id not in task_ids:
                raise BadInputError(f"{where}: the dataset {dataset.name} has no such task")
            if sorted(sample.index for sample in task.samples) != list(range(n)):
                raise BadInputError(f"{where}: the samples are not those from 0 to {n - 1}")


def _refuse_duplicates(names: Collection[str], what: str) -> None:
    for name, number in Counter(names).items():
        if number > 1:
            raise BadInputError(f"{what} {name[:LONGEST_ECHO]!r} is there twice")


def _is_stored(ctx: Context, study_id: uuid.UUID) -> bool:
    with ctx.database.read() as session:
        return session.get(Study, study_id) is not None


def _store_hidden(
    attempt: JobAttempt, found: StudyArchive, run_id: uuid.UUID, arm: ArchiveArm, dataset: Dataset
) -> None:
    """Stores the run of an arm with its tasks and samples, and its figures; nothing shows it yet."""
    run = _build_run(found, run_id, arm, dataset)
    finished = {task.task_id: task for task in arm.tasks}
    tasks = [(generate_id(), task, finished[task.task_id]) for task in dataset.tasks if task.task_id in finished]
    rows = [
        {
            "id": row_id,
            "run_id": run.id,
            "task_pk": task.id,
            "position": task.position,
            "state": TaskState.FINISHED,
            "queued_at": found.created_at,
            **archived.model_dump(exclude={"task_id", "samples"}),
        }
        for row_id, task, archived in tasks
    ]
    hidden_runs.store_hidden_run(attempt, run, rows)
    run_tasks = hidden_runs.map_job_ids(attempt.ctx.database, run_id)
    samples = (
        {"run_id": run_id, "run_task_id": run_tasks[task.task_id], **sample.model_dump()}
        for task in arm.tasks
        for sample in task.samples
    )
    hidden_runs.store_samples(attempt, samples, sum(len(task.samples) for task in arm.tasks))
    with attempt.ctx.database.read() as session:
        measured = figures.compute_measurement(session, get_run(session, run_id, hidden=True))
    attempt.cursor["arms"] = attempt.cursor.get("arms", 0) + 1
    attempt.save(lambda session: figures.store_measurement(session, get_run(session, run_id, hidden=True), measured))


def _store_study(found: StudyArchive, dataset: Dataset, run_ids: Sequence[uuid.UUID], session: Session) -> None:
    own = {"id", "name", "created_at", "budget_s", "seed", "race", "block_tasks", "command", "note"}
    study = Study(
        **found.model_dump(include=own),
        machine=found.machine.model_dump(exclude_unset=True),
        dataset_id=dataset.id,
        measured_elsewhere=found.measured_on,
        arms=[
            StudyArm(
                position=position,
                run_id=run_id,
                **arm.model_dump(include={"name", "dropped_at", "dropped_by", "dropped_after"}),
            )
            for position, (run_id, arm) in enumerate(zip(run_ids, found.arms, strict=True))
        ],
    )
    session.add(study)
    session.flush()
    for run_id, arm in zip(run_ids, found.arms, strict=True):
        state, finished_at = RunState(arm.state), arm.finished_at or get_utc_time()
        hidden_runs.unhide_run(get_run(session, run_id, hidden=True), state, arm.error, finished_at)


def _build_run(found: StudyArchive, run_id: uuid.UUID, arm: ArchiveArm, dataset: Dataset) -> Run:
    own = {"n_tasks", "prompt_mode_used", "command", "started_at", "note"}
    options = arm.configuration.model_dump(exclude={"name"})
    return Run(
        id=run_id,
        **get_option_columns(RunSpec(**options, budget_s=found.budget_s, seed=found.seed)),
        **arm.model_dump(include=own),
        policy=ARM,
        name=arm.run_name,
        dataset_id=dataset.id,
        excluded=[one.model_dump() for one in arm.excluded],
        provenance={**arm.provenance.model_dump(exclude_unset=True), "measured_elsewhere": found.measured_on},
        created_at=found.created_at,
        calibrations=[Calibration(**calibration.model_dump()) for calibration in arm.calibrations],
    )
