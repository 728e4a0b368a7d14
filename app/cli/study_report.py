"""What a study says, as `study run`, `resume` and `show` print it."""

from __future__ import annotations

import uuid

from app.cli import common
from app.core.context import Context
from app.core.errors import BasslineError
from app.core.states import OPEN_RUN_STATES, RunState
from app.runs.documents import to_plain_json
from app.studies import documents, progress, report
from app.studies.analysis import analyse_study
from app.studies.documents import StudyDocument
from app.studies.repository import get_study
from app.studies.sentences import MeasuredTasks, describe_answer, to_text
from app.web.ui.units import format_points
from evaluation.decisions import MARGIN


def build_study_document(
    ctx: Context, study_id: uuid.UUID, budget_s: float | None = None, margin: float = MARGIN
) -> StudyDocument:
    """The study and its results by a margin (a share), with the answer at one budget if asked for.

    Raises NotFoundError, and BadInputError for a budget above the study's.
    """
    with ctx.database.read() as session:
        study = get_study(session, study_id)
        return documents.build_document(
            study, analyse_study(session, study), progress.compute_study_progress(session, study), budget_s, margin
        )


def print_study(document: StudyDocument, json_file: str | None) -> None:
    """Writes the JSON and prints the tables."""
    common.write_json(json_file, to_plain_json(document))
    console = common.choose_console(json_file)
    heading = f"{document.study.name} ({document.study.state})"
    console.print(common.build_pairs(heading, report.list_facts(document)))
    console.print()
    console.print(document.disturbance + document.sentence, soft_wrap=True)
    if document.at_budget is not None:
        console.print(document.disturbance + _describe_budget(document), soft_wrap=True)
    if document.study.state in OPEN_RUN_STATES:
        console.print(f"The study is {document.study.state}: these are the results so far.")
    for section in report.list_tables(document):
        common.print_text_table(console, section, (report.RUN,))


def report_end(ctx: Context, study_id: uuid.UUID, json_file: str | None, margin: float = MARGIN) -> None:
    """Writes an ended study as `print_study` does. Raises BasslineError unless it has finished."""
    document = build_study_document(ctx, study_id, margin=margin)
    print_study(document, json_file)
    study = document.study
    if study.state is not RunState.FINISHED:
        errors = "; ".join(dict.fromkeys(arm.error for arm in document.arms if arm.error))
        raise BasslineError(f"the study ended as {study.state}: {errors or 'see `bassline study show`'}")


def _describe_budget(document: StudyDocument) -> str:
    answer = document.at_budget
    assert answer is not None
    study = document.study
    text = to_text(describe_answer(answer, MeasuredTasks(study.tasks_common, study.dataset, study.dataset_tasks)))
    if answer.one_second_more is not None:
        text += f" One more second: {format_points(answer.one_second_more, study.tasks_common)} points."
    return text
