"""The answer to "which model for this code?", in one sentence that claims no more than its number of tasks allows."""

from __future__ import annotations

from app.advice.study import MIN_TASKS
from app.runs.failures import FailureCounts
from app.studies.documents import StudyDocument
from app.studies.sentences import MeasuredTasks, describe_answer, to_text
from app.web.ui.units import format_count, format_exact_seconds

ENOUGH_SOLVED = 6
"""Below this no loss of another model could be significant (docs/ci.md)."""


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
    if solved < ENOUGH_SOLVED or n < MIN_TASKS:
        said = (
            f"Too few to advise: the best of them, {answer.arm}, solves {solved} of the {code} {at}. A choice needs at "
            f"least {MIN_TASKS} tasks, of which one model solves {ENOUGH_SOLVED}."
        )
        return f"{said} {failed.advice}" if solved < ENOUGH_SOLVED and n >= MIN_TASKS else said
    sentences = describe_answer(
        answer, MeasuredTasks(n, found.study.dataset, found.study.dataset_tasks, "of your code")
    )
    return to_text(sentences)
