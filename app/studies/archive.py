"""A study in one file with all its samples, so that another installation can load it: gzipped JSON of a `StudyArchive`.

It has what figures, pages and statistics need, and notes. What only this installation needs stays behind: token ids,
the prompts (the dataset has the tasks), and tasks that were not finished.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from app.annotations.schemas import Note
from app.core.db.database import Database
from app.core.db.storable import InputText
from app.core.errors import BadInputError, ConflictError
from app.core.settings import MAX_BUDGET_S, MIN_BUDGET_S
from app.core.states import OPEN_RUN_STATES, TaskState
from app.runs.configuration import get_arm_options
from app.runs.figures import get_finish_time
from app.runs.models import Calibration, RunTask
from app.runs.provenance import Provenance
from app.runs.repository import iterate_tasks
from app.samples.models import Sample
from app.samples.transport import ARCHIVE, Count, Seed, Time, add_columns
from app.studies.documents import format_devices
from app.studies.models import Study, StudyArm
from app.studies.schemas import MAX_ARMS, MIN_ARMS, ArmSpec
from app.web.http.schemas import RequestModel, to_bad_input
from evaluation.jsonlines import decode_text
from evaluation.verdicts import Status

Name = Annotated[InputText, Field(min_length=1, max_length=200)]
GZIP = 16  # added to zlib's window bits, it selects gzip's header and trailer
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Machine(RequestModel):
    """The machine of a study (app/core/provenance.py)."""

    cpu: Annotated[InputText, Field(max_length=500)] | None = None
    cpu_count: Count | None = None


@add_columns(Sample, ARCHIVE)
class ArchiveSample(RequestModel):
    """One sample with its verdict."""

    index: Count
    verdict: Status


@add_columns(RunTask, ARCHIVE)
class ArchiveTask(RequestModel):
    """A finished task with its samples."""

    task_id: InputText
    samples: tuple[ArchiveSample, ...] = Field(min_length=1)


@add_columns(Calibration, ARCHIVE)
class ArchiveCalibration(RequestModel):
    """How fast the machine was at one moment."""


class ExcludedTask(RequestModel):
    """A task that was left out because its own solution fails."""

    task_id: InputText
    reason: InputText


class ArchiveArm(RequestModel):
    """An arm with its run."""

    name: Name
    configuration: ArmSpec
    run_name: Name
    state: Literal["finished", "interrupted", "cancelled", "failed"]
    error: InputText | None
    n_tasks: Count
    excluded: tuple[ExcludedTask, ...]
    prompt_mode_used: InputText | None = Field(max_length=20)
    command: InputText
    provenance: Provenance
    note: Note = ""
    started_at: Time | None
    finished_at: Time | None
    dropped_at: Time | None
    dropped_by: Count | None
    dropped_after: Count | None
    calibrations: tuple[ArchiveCalibration, ...]
    tasks: tuple[ArchiveTask, ...]


class StudyArchive(RequestModel):
    """A study. `bassline_study` is the version of this format."""

    bassline_study: Literal[1]
    id: uuid.UUID
    name: Name
    measured_on: Name
    created_at: Time
    dataset: Name
    dataset_sha256: Sha256
    budget_s: float = Field(ge=MIN_BUDGET_S, le=MAX_BUDGET_S)
    seed: Seed
    race: bool
    block_tasks: int = Field(ge=1, le=2**31 - 1)
    machine: Machine
    command: InputText
    note: Note = ""
    arms: tuple[ArchiveArm, ...] = Field(min_length=MIN_ARMS, max_length=MAX_ARMS)


def write_archive(database: Database, study: Study) -> Iterator[bytes]:
    """The ended study as the chunks of a file; its tasks are read as they are taken.

    The session that read the study may be closed after the call. Raises ConflictError for a study that is open.
    """
    if study.state in OPEN_RUN_STATES:
        raise ConflictError(f"the study is {study.state}: only one that has ended can be exported as an archive")
    return _compress(_generate_json(database, _build_header(study), [arm.run_id for arm in study.arms]))


def parse_archive(data: bytes, origin: str) -> StudyArchive:
    """The archive in a file's bytes, gzipped or not. Raises BadInputError that names `origin`, the field and the
    fault."""
    try:
        return StudyArchive.model_validate_json(decode_text(data, origin, ValueError))
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            sentence = f"it is not JSON ({error.errors()[0]['ctx']['error']}): give a file of `study export`"
        else:
            sentence = str(to_bad_input(error))
        raise BadInputError(f"{origin}: {sentence}", "file") from None
    except ValueError as error:
        raise BadInputError(str(error), "file") from None


def _build_header(study: Study) -> StudyArchive:
    return StudyArchive.from_row(
        study,
        bassline_study=1,
        dataset=study.dataset.name,
        dataset_sha256=study.dataset.sha256,
        measured_on=study.measured_elsewhere or _describe_machine(study),
        arms=tuple(map(_build_arm, study.arms)),
    )


def _generate_json(database: Database, found: StudyArchive, run_ids: Sequence[uuid.UUID]) -> Iterator[str]:
    """Yield the JSON of a study in parts, with the tasks of each arm. A list of parts is last in its object."""
    yield _dump(found, "arms").removesuffix("}") + ',"arms":['
    for place, (run_id, arm) in enumerate(zip(run_ids, found.arms, strict=True)):
        yield "," * (place > 0) + _dump(arm, "tasks").removesuffix("}") + ',"tasks":['
        finished = (row for row in iterate_tasks(database, run_id) if row.state is TaskState.FINISHED)
        for number, row in enumerate(finished):
            yield "," * (number > 0) + _dump(_build_task(row))
        yield "]}"
    yield "]}"


def _dump(part: RequestModel, *without: str) -> str:
    return part.model_dump_json(exclude_unset=True, exclude=set(without))


def _compress(texts: Iterator[str]) -> Iterator[bytes]:
    compressor = zlib.compressobj(9, wbits=zlib.MAX_WBITS | GZIP)
    for text in texts:
        if chunk := compressor.compress(text.encode()):
            yield chunk
    yield compressor.flush()


def _describe_machine(study: Study) -> str:
    where = format_devices(study)
    cpu = study.machine.get("cpu") or next(
        (run.provenance["cpu"] for run in study.runs if run.provenance.get("cpu")), ""
    )
    return (where if not cpu or cpu in where else f"{where}, {cpu}")[:200]


def _build_arm(arm: StudyArm) -> ArchiveArm:
    run = arm.run
    return ArchiveArm.from_row(
        run,
        name=arm.name,
        configuration=ArmSpec(**get_arm_options(run)),
        run_name=run.name,
        dropped_at=arm.dropped_at,
        dropped_by=arm.dropped_by,
        dropped_after=arm.dropped_after,
        calibrations=tuple(map(ArchiveCalibration.from_row, run.calibrations)),
        tasks=(),
    )


def _build_task(row: RunTask) -> ArchiveTask:
    samples = tuple(ArchiveSample.from_row(sample, finished_s=get_finish_time(sample)) for sample in row.samples)
    return ArchiveTask.from_row(row, task_id=row.task.task_id, samples=samples)
