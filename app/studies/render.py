"""Studies as the documents of app/studies/documents.py."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping

from app.core.errors import BadInputError
from app.core.states import OPEN_RUN_STATES
from app.runs.clock import describe_disturbance
from app.runs.configuration import arm_options
from app.runs.quiet import describe_quiet_wait
from app.studies.analysis import StudyAnalysis
from app.studies.documents import (
    ArmDocument,
    NamedAnswer,
    StudyDocument,
    StudyHead,
    StudyInfo,
    StudyOverview,
)
from app.studies.models import Study
from app.studies.progress import ArmProgress, remaining_s
from app.studies.sentences import Measured, describe_study
from app.web.ui.units import exact, exact_seconds
from evaluation.decisions import MARGIN
from evaluation.studies.analysis import Analysis
from evaluation.studies.answer import Answer

NOTHING_YET = "Nothing can be said yet: the arms have no graded task in common."


def overview(study: Study, progress: Mapping[uuid.UUID, ArmProgress]) -> StudyOverview:
    """The study with its arms."""
    return StudyOverview(study=_head(study, progress), arms=_arms(study, progress))


def document(
    study: Study,
    analysis: StudyAnalysis,
    progress: Mapping[uuid.UUID, ArmProgress],
    budget_s: float | None = None,
    margin: float = MARGIN,
) -> StudyDocument:
    """The study with its arms and what it says, by a margin (a share); with `budget_s` also at that budget.

    Raises BadInputError for a budget above the study's.
    """
    found, at = analysis.found, budget_s
    if at is not None:
        check_measured(study, at)
    answers = found.answers_with(margin) if found else ()
    made = StudyDocument(
        study=StudyInfo(
            **dict(_head(study, progress)),
            tasks_common=len(found.tasks_common) if found else 0,
            arms_compared=list(analysis.compared),
        ),
        arms=_arms(study, progress),
        sentence=describe_study(answers, measured(study, found)) if found else NOTHING_YET,
        disturbance=find_disturbance(study, analysis.compared) if found else "",
        answer=[_named(answer) for answer in answers],
        reached=list(found.reached) if found else [],
        frontier=list(found.frontier_first) if found else [],
        frontier_all=list(found.frontier_all) if found else [],
        paper_table=list(found.paper_table) if found else [],
        samples=list(found.samples_with(at)) if found else [],
        speculation=list(found.speculation) if found else [],
    )
    return made.model_copy(update={"at_budget": found.answer_at(at, margin)}) if found and at is not None else made


def check_measured(study: Study, budget_s: float) -> None:
    """Raises BadInputError for a budget above the study's: nothing was measured there."""
    if budget_s > study.budget_s:
        raise BadInputError(
            f"budget is {exact(budget_s)}: measured to {exact_seconds(study.budget_s)}, give at most that",
            "budget",
        )


def measured(study: Study, found: Analysis) -> Measured:
    """What the answers of the study are about."""
    return Measured(len(found.tasks_common), study.dataset.name, study.dataset.n_tasks)


def _named(answer: Answer) -> NamedAnswer:
    return NamedAnswer.of(answer, from_s=answer.budget_s, to_s=answer.budget_s)


def find_disturbance(study: Study, arms: Collection[str]) -> str:
    """How a sentence about these arms begins if their times are not to be trusted; else ""."""
    return describe_disturbance(arm.run.measured for arm in study.arms if arm.name in arms)


def device(study: Study) -> str:
    """The device that the arms were measured on; of several, all."""
    return ", ".join(dict.fromkeys(run.device_label for run in study.runs))


def _head(study: Study, progress: Mapping[uuid.UUID, ArmProgress]) -> StudyHead:
    return StudyHead.of(
        study,
        dataset=study.dataset.name,
        dataset_sha256=study.dataset.sha256,
        dataset_tasks=study.dataset.n_tasks,
        device=device(study),
        remaining_s=remaining_s(study.arms, progress),
        waiting=describe_quiet_wait(study.runs) if study.state in OPEN_RUN_STATES else None,
    )


def _arms(study: Study, progress: Mapping[uuid.UUID, ArmProgress]) -> list[ArmDocument]:
    return [
        ArmDocument.of(
            arm.run,
            name=arm.name,
            run_id=arm.run_id,
            configuration=arm_options(arm.run),
            tasks=progress[arm.run_id].finished,
            marks=list(arm.run.measured.clock_marks or ()),
            dropped_at=arm.dropped_at,
            dropped_by=None if arm.dropped_by is None else study.arms[arm.dropped_by].name,
            dropped_after=arm.dropped_after,
        )
        for arm in study.arms
    ]
