"""Studies as the API, `--json` and exports show them. Times are ISO 8601, durations seconds, shares from 0 to 1."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Mapping

from pydantic import Field, JsonValue

from app.annotations.schemas import ArchivedField, NoteField
from app.core.errors import BadInputError
from app.core.states import OPEN_RUN_STATES, RunState
from app.runs.clock import describe_disturbance
from app.runs.configuration import get_arm_options
from app.runs.quiet import describe_quiet_wait
from app.studies.analysis import StudyAnalysis
from app.studies.engine_rows import EngineRow
from app.studies.models import Study
from app.studies.progress import ArmProgress, compute_remaining_s
from app.studies.sentences import MeasuredTasks, describe_study
from app.web.http.schemas import ResponseModel
from app.web.ui.units import format_exact, format_exact_seconds
from evaluation.decisions import MARGIN
from evaluation.studies.analysis import Analysis, ShareReached
from evaluation.studies.answer import BudgetAnswer
from evaluation.studies.paper_table import PaperRow
from evaluation.studies.samples import FamilySamples
from evaluation.studies.speculation import SpeculationPair


class StudyHead(ResponseModel):
    """What all arms of a study share, and how far it is."""

    id: uuid.UUID
    name: str
    state: RunState
    dataset: str
    dataset_sha256: str
    dataset_tasks: int
    budget_s: float = Field(description="seconds of wall clock per task")
    seed: int
    race: bool = Field(description="arms that are worse than another at every budget of interest are dropped")
    block_tasks: int = Field(
        description="tasks after which arms change places; 1 where all engines are loaded together"
    )
    device: str = Field(description="where the arms were measured")
    machine: dict[str, JsonValue] = Field(description="the machine that decoded the first task; empty before")
    measured_elsewhere: str | None = Field(
        description="where a loaded study was measured; null for one of this service"
    )
    command: str = Field(description="repeats the study from a shell; empty for one from before it was recorded")
    created_at: dt.datetime
    remaining_s: float | None = Field(description="an estimate; null until every arm has decoded three tasks")
    waiting: str | None = Field(description="why measuring waits for a quiet machine now; null: it does not")
    note: NoteField = ""
    archived: ArchivedField = False


class ArmDocument(ResponseModel):
    """One arm. `run_id` is its run, which has an address of its own with all samples."""

    name: str
    run_id: uuid.UUID
    state: RunState
    error: str | None
    configuration: dict[str, JsonValue] = Field(description="the options in which arms may differ")
    tasks: int = Field(description="tasks that are finished")
    n_tasks: int = Field(description="tasks asked for, after exclusion")
    marks: list[str] = Field(description="why the times of its run are not to be trusted")
    dropped_at: dt.datetime | None = Field(description="when the race gave it up")
    dropped_by: str | None = Field(description="the arm that was better")
    dropped_after: int | None = Field(description="the tasks that showed it")


class StudyOverview(ResponseModel):
    """A study without its results."""

    study: StudyHead
    arms: list[ArmDocument]


class StudyPage(ResponseModel):
    """Studies, newest first."""

    studies: list[StudyOverview]
    next: str | None


class StudyInfo(StudyHead):
    """A study with the tasks and arms that its answer is about."""

    tasks_common: int = Field(description="graded tasks that all compared arms have; every figure is over these")
    arms_compared: list[str] = Field(description="without arms that were dropped or have failed")


class StudyDocument(ResponseModel):
    """A study and what it says. The lists are empty until all arms have a graded task in common."""

    study: StudyInfo
    arms: list[ArmDocument]
    sentence: str = Field(description="the answer in words")
    disturbance: str = Field(description="text to put before the sentence if the times cannot be trusted; else empty")
    answer: list[BudgetAnswer] = Field(
        description="which arm to use at 1, 2, 3, 5, 10 s and at the study's own budget; `use` is null while no chosen "
        "sample passes. The verdict, the difference and the tasks to decide are about `use` and `against`"
    )
    at_budget: BudgetAnswer | None = Field(None, description="the answer at the budget that was asked for")
    reached: list[ShareReached] = Field(description="the smallest budget at which Pass@First of an arm is each share")
    paper_table: list[PaperRow] = Field(description="regular decoding, single-sequence and batched speculation")
    samples: list[FamilySamples] = Field(
        description="Pass@First and Pass@All over n at the budgets of `answer` and the one asked for"
    )
    speculation: list[SpeculationPair] = Field(description="what drafting buys over regular decoding")
    engines: list[EngineRow] = Field(description="the arms, if other servers take part; else empty")


NOTHING_YET = "Nothing can be said yet: the arms have no graded task in common."


def build_overview(study: Study, progress: Mapping[uuid.UUID, ArmProgress]) -> StudyOverview:
    """The study with its arms."""
    return StudyOverview(study=_build_head(study, progress), arms=_build_arm_documents(study, progress))


def build_document(
    study: Study,
    analysis: StudyAnalysis,
    progress: Mapping[uuid.UUID, ArmProgress],
    budget_s: float | None = None,
    margin: float = MARGIN,
) -> StudyDocument:
    """The study with its arms and what it says, by a margin (a share); with `budget_s` also at that budget.

    Raises BadInputError for a budget above the study's.
    """
    found = analysis.statistics
    if budget_s is not None:
        require_measured_budget(study, budget_s)
    answers = found.list_answers(margin) if found else ()
    made = StudyDocument(
        study=StudyInfo(
            **dict(_build_head(study, progress)),
            tasks_common=len(found.tasks_common) if found else 0,
            arms_compared=list(analysis.compared),
        ),
        arms=_build_arm_documents(study, progress),
        sentence=describe_study(answers, get_measured_tasks(study, found)) if found else NOTHING_YET,
        disturbance=find_disturbance(study, analysis.compared) if found else "",
        answer=list(answers),
        reached=list(found.reached) if found else [],
        paper_table=list(found.paper_table) if found else [],
        samples=list(found.list_samples(budget_s)) if found else [],
        speculation=list(found.speculation) if found else [],
        engines=list(analysis.engines),
    )
    if found is None or budget_s is None:
        return made
    return made.model_copy(update={"at_budget": found.answer_at(budget_s, margin)})


def require_measured_budget(study: Study, budget_s: float) -> None:
    """Raises BadInputError for a budget above the study's: nothing was measured there."""
    if budget_s > study.budget_s:
        raise BadInputError(
            f"budget is {format_exact(budget_s)}: measured to {format_exact_seconds(study.budget_s)}, give at most "
            "that",
            "budget",
        )


def get_measured_tasks(study: Study, found: Analysis) -> MeasuredTasks:
    """What the answers of the study are about."""
    return MeasuredTasks(len(found.tasks_common), study.dataset.name, study.dataset.n_tasks)


def find_disturbance(study: Study, arms: Collection[str]) -> str:
    """How a sentence about these arms begins if their times are not to be trusted; else ""."""
    return describe_disturbance(arm.run.measured for arm in study.arms if arm.name in arms)


def format_devices(study: Study) -> str:
    """The devices that the arms were measured on."""
    return ", ".join(dict.fromkeys(run.device_label for run in study.runs))


def _build_head(study: Study, progress: Mapping[uuid.UUID, ArmProgress]) -> StudyHead:
    return StudyHead.from_row(
        study,
        dataset=study.dataset.name,
        dataset_sha256=study.dataset.sha256,
        dataset_tasks=study.dataset.n_tasks,
        device=format_devices(study),
        remaining_s=compute_remaining_s(study.arms, progress),
        waiting=describe_quiet_wait(study.runs) if study.state in OPEN_RUN_STATES else None,
    )


def _build_arm_documents(study: Study, progress: Mapping[uuid.UUID, ArmProgress]) -> list[ArmDocument]:
    return [
        ArmDocument.from_row(
            arm.run,
            name=arm.name,
            run_id=arm.run_id,
            configuration=get_arm_options(arm.run),
            tasks=progress[arm.run_id].finished,
            marks=list(arm.run.measured.clock_marks or ()),
            dropped_at=arm.dropped_at,
            dropped_by=None if arm.dropped_by is None else study.arms[arm.dropped_by].name,
            dropped_after=arm.dropped_after,
        )
        for arm in study.arms
    ]
