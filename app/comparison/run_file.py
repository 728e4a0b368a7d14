"""A run as one JSON file, for a comparison in another database: settings, device, times and verdicts, without texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field, ValidationError, field_validator, model_validator
from sqlalchemy.orm import Session

from app.comparison.pair import MeasuredRun, load_stored_run
from app.core.context import Context
from app.core.db.storable import require_storable
from app.core.errors import BadInputError
from app.core.settings import MAX_BUDGET_S, MIN_BUDGET_S
from app.core.states import TaskState
from app.datasets import service as datasets
from app.datasets.models import Dataset
from app.datasets.repository import find_by_content
from app.runs.documents import RunInfo, build_run_document
from app.runs.figures import get_finish_time
from app.runs.models import Calibration, Run, RunTask
from app.runs.outcomes import SampleRow
from app.runs.provenance import Provenance
from app.runs.repository import find_run, load_measured_tasks
from app.runs.results import Figures
from app.samples.models import Sample
from app.samples.transport import RUN_FILE, add_columns
from app.web.http.schemas import RequestModel, to_bad_input

FORMAT = "run"
SUFFIX = ".json"


@add_columns(Sample, RUN_FILE)
class _Sample(RequestModel):
    pass


@add_columns(RunTask, RUN_FILE)
class _Task(RequestModel):
    task_id: str
    samples: list[_Sample]


@add_columns(Calibration, RUN_FILE)
class _Calibration(RequestModel):
    pass


class _StoredRun(RunInfo):
    budget_s: float = Field(ge=MIN_BUDGET_S, le=MAX_BUDGET_S)
    n: int = Field(ge=1)

    @field_validator("provenance")
    @classmethod
    def _check_provenance(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            Provenance.model_validate(value)
        except ValidationError as error:
            raise ValueError(str(to_bad_input(error))) from None
        return value


class _RunFile(RequestModel):
    bassline: Literal["run-1"] = Field(description="what this file is, and its version")
    run: _StoredRun
    figures: Figures
    tasks: list[_Task]
    calibrations: tuple[_Calibration, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _require_storable(cls, value: Any) -> Any:
        return require_storable(value)


def format_run_file(session: Session, run: Run) -> str:
    """The text of the file."""
    document = build_run_document(run)
    tasks = [
        _Task.from_row(
            row,
            task_id=row.task.task_id,
            samples=[_Sample.from_row(sample, finished_s=get_finish_time(sample)) for sample in row.samples],
        )
        for row in load_measured_tasks(session, run.id)
    ]
    file = _RunFile(
        bassline="run-1",
        run=_StoredRun.from_row(document.run),
        figures=document.figures,
        tasks=tasks,
        calibrations=tuple(map(_Calibration.from_row, run.calibrations)),
    )
    return file.model_dump_json(indent=1) + "\n"


def load_measured_run(ctx: Context, session: Session, reference: str) -> MeasuredRun:
    """The run in a file, if `reference` ends in .json; else one of the database, as find_run finds it.

    Raises BadInputError or NotFoundError.
    """
    if not reference.endswith(SUFFIX):
        return load_stored_run(session, find_run(session, reference))
    file = _parse_run_file(Path(reference))
    return _build_measured_run(file, _require_its_dataset(ctx, session, file, reference))


def _parse_run_file(path: Path) -> _RunFile:
    try:
        return _RunFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}", "run") from None
    except ValidationError as error:
        why = "it is not JSON" if error.errors()[0]["type"] == "json_invalid" else str(to_bad_input(error))
        raise BadInputError(
            f"{path} is not a run: {why}; write one with `bassline runs export ID --format {FORMAT} --output {path}`",
            "run",
        ) from None


def _require_its_dataset(ctx: Context, session: Session, file: _RunFile, path: str) -> Dataset:
    """The dataset of the run. Raises BadInputError if there is none with the same content and all of its tasks."""
    name, sha256 = file.run.dataset, file.run.dataset_sha256
    dataset = find_by_content(session, name, sha256) or datasets.require_dataset(ctx, name)
    if dataset.sha256 != sha256:
        raise BadInputError(
            f"{path} is over another {name} (sha256 {sha256[:12]}, here {dataset.sha256[:12]}): import the dataset it "
            "was made with",
            "run",
        )
    known = {task.task_id for task in dataset.tasks}
    if unknown := next((task.task_id for task in file.tasks if task.task_id not in known), None):
        raise BadInputError(
            f"{path} has the task {unknown[:100]!r}, which {dataset.name} does not have: export it again", "run"
        )
    return dataset


def _build_measured_run(file: _RunFile, dataset: Dataset) -> MeasuredRun:
    """The run of the file as rows that belong to no session."""
    task_by_id = {task.task_id: task for task in dataset.tasks}
    columns = set(Run.__table__.columns.keys()) & set(RunInfo.model_fields)
    run = Run(**file.run.model_dump(include=columns), graded=True, figures=file.figures)
    run.stored_dataset, run.dataset_id = dataset, dataset.id
    run.calibrations = [Calibration(**calibration.model_dump()) for calibration in file.calibrations]
    n_tokens_by_task, rows = {}, []
    for stored in file.tasks:
        task, samples = task_by_id[stored.task_id], cast("list[Any]", stored.samples)
        row = RunTask(task=task, task_pk=task.id, **stored.model_dump(exclude={"task_id", "samples"}))
        n_tokens_by_task[row] = sum(s.n_tokens for s in samples)
        if row.state == TaskState.FINISHED:
            rows += [_build_sample_row(task.position, sample) for sample in samples]
    return MeasuredRun(run, n_tokens_by_task, rows)


def _build_sample_row(position: int, sample: Any) -> SampleRow:
    return SampleRow(
        run=0,  # compare_runs sets it
        task=position,
        index=sample.index,
        finish_reason=sample.finish_reason,
        finished_s=get_finish_time(sample),
        mean_logprob=sample.mean_logprob,
        verdict=sample.verdict,
        n_tokens=sample.n_tokens,
    )
