"""What a study advises about a project: the sentence, the table of models, the coverage, and the report as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.advice.study import MIN_TASKS
from app.datasets.models import Dataset
from app.runs.failures import FailureCounts, count_failed_samples
from app.studies import documents, export
from app.studies.analysis import StudyAnalysis
from app.studies.documents import StudyDocument
from app.studies.models import Study
from app.studies.progress import compute_study_progress
from app.studies.report import format_share
from app.studies.sentences import MeasuredTasks, describe_answer, to_text
from app.web.ui.tables import ArmName, TextTable
from app.web.ui.units import format_count, format_exact_seconds, format_milliseconds
from evaluation.significance import LEAST_DISCORDANT


@dataclass(frozen=True, slots=True)
class AdviceReport:
    """The advice of a study. `coverage` is None for a dataset that was not made from code."""

    document: StudyDocument
    dataset: Dataset
    sentence: str
    failed: FailureCounts
    coverage: dict[str, Any] | None
    models: TextTable


def build_report(session: Session, study: Study, said: StudyAnalysis) -> AdviceReport:
    """The report of a study at its own budget."""
    document = documents.build_document(study, said, compute_study_progress(session, study))
    failed = count_failed_samples(session, [arm.run_id for arm in document.arms])
    coverage = session.scalar(select(Dataset.coverage).where(Dataset.id == study.dataset_id))
    return AdviceReport(
        document, study.dataset, format_advice(document, failed), failed, coverage, _compare_models(study, said)
    )


def _compare_models(study: Study, said: StudyAnalysis) -> TextTable:
    curves = {one.arm: one for one in said.statistics.curves} if said.statistics else {}
    n = len(said.statistics.tasks_common) if said.statistics else 0
    rows = []
    for arm in study.arms:
        at = curves[arm.name].get_shares_at(study.budget_s) if arm.name in curves else None
        shares = ("–", "–") if at is None else tuple(format_share(value, bounds, n) for value, bounds in at)
        state = "dropped" if arm.dropped_at else str(arm.run.state)
        rows.append((ArmName(arm.name), *shares, format_milliseconds(arm.run.measured.ms_per_token_all), state))
    return TextTable(
        "Models",
        f"The share of the same tasks that each solves within {format_exact_seconds(study.budget_s)}, with its 95 % "
        "interval. A model shown to be worse was dropped.",
        ("Model", "Chosen sample right", "Any sample right", "ms/token", "State"),
        tuple(rows),
    )


def format_report(report: AdviceReport) -> str:
    """The report as GitHub's Markdown."""
    parts = [f"# Which model for {report.dataset.name}?\n\n{report.sentence}\n"]
    if report.coverage is not None:
        parts.append(f"{describe_coverage(report.coverage)}\n")
    parts.append(export.format_study_markdown(report.document).replace("# ", "## ", 1))
    return "\n".join(parts)


def describe_coverage(coverage: dict[str, Any]) -> str:
    """The share of the project that became tasks, and what judges them."""
    return (
        f"The tasks are {coverage['functions_covered']} of the {coverage['functions_called']} functions that the "
        f"project's tests call ({100 * coverage['covered_share']:.0f} %). An answer is judged by recorded calls, or by "
        "the tests that cover its function."
    )


def format_advice(found: StudyDocument, failed: FailureCounts) -> str:
    """The sentence about a study at its own budget. It begins with what disturbed the clock.

    `failed` are the samples of its arms that did not pass.
    """
    return found.disturbance + _sentence(found, failed)


def _sentence(found: StudyDocument, failed: FailureCounts) -> str:
    n = found.study.tasks_common
    if not n or not found.answer:
        return "No task was graded for every model, so there is nothing to advise."
    answer = found.answer[-1]
    code, at = f"{format_count(n, 'task')} of your code", f"within {format_exact_seconds(answer.budget_s)}"
    if answer.arm is None:
        return f"None of these models solves any of the {code} {at}. {failed.advice}".rstrip()
    solved = round(answer.pass_first * n)
    if solved < LEAST_DISCORDANT or n < MIN_TASKS:
        said = (
            f"Too few to advise: the best of them, {answer.arm}, solves {solved} of the {code} {at}. A choice needs at "
            f"least {MIN_TASKS} tasks, of which one model solves {LEAST_DISCORDANT}."
        )
        return f"{said} {failed.advice}" if solved < LEAST_DISCORDANT and n >= MIN_TASKS else said
    sentences = describe_answer(
        answer, MeasuredTasks(n, found.study.dataset, found.study.dataset_tasks, "of your code")
    )
    return to_text(sentences)
