"""The sentence of the first page: which model answers how much right in time, how sure that is, and over what."""

from __future__ import annotations

from typing import NamedTuple

from app.first_page.answer import FirstPageAnswer
from app.first_page.models_at_budget import ModelRow, ModelsAtBudget
from app.leaderboard.service import MIN_TASKS
from app.studies.sentences import MAX_NAMES, MeasuredTasks, format_margin, format_tasks_to_decide
from app.web.ui.units import format_count, format_exact_seconds, format_interval, format_percent, format_seconds
from evaluation.decisions import MARGIN

FEW_TASKS = "With so few tasks, even large differences can be chance."


class Headline(NamedTuple):
    """One sentence in parts: `answer` names the model, `sure` its interval, `over` the tasks and the machine."""

    answer: str
    sure: str
    over: str
    details: str  # sentences about the other models


def describe_models(page_answer: FirstPageAnswer, found: ModelsAtBudget) -> Headline:
    """The answer at the budget, which is one that was measured."""
    tasks = format_count(page_answer.n_tasks, "task")
    whose = f" {page_answer.over.whose}" if page_answer.over.whose else f" of {page_answer.over.dataset}"
    over = f"over {tasks}{whose} on {page_answer.device}"
    disturbance = page_answer.disturbance
    measured = f"Measured on {disturbance.machine}, " if disturbance else ""  # the mark below the sentence says why
    within, used = f"within {format_exact_seconds(found.shown_s)}", found.used
    if used is None:
        nothing = f"{measured}no model answers right {within}" if measured else f"No model answers right {within}"
        few = f" {FEW_TASKS}" if page_answer.n_tasks < MIN_TASKS else ""
        return Headline(nothing, "", over, _describe_first(page_answer) + few)
    if used.run.weights != "dense":
        over = f"with {used.run.weights}, {over}"
    right = f"{format_percent(used.share, page_answer.n_tasks)} right"
    sure = f"95 % interval: {format_interval(used.interval, page_answer.n_tasks)} %"
    if len(found.select("unmeasured")) == len(found.rows) - 1:
        answer = f"{measured}{used.model} answers {right} {within}"
    elif found.select("undecided"):
        answer = f"{measured}{used.model} is the best so far: it answers {right} {within}"
    elif measured:
        answer = f"{measured}{used.model} is the one to use: it answers {right} {within}"
    else:
        answer = f"Use {used.model}: it answers {right} {within}"
    return Headline(answer, sure, over, " ".join(_describe_others(page_answer, found, used)))


def _describe_others(page_answer: FirstPageAnswer, found: ModelsAtBudget, used: ModelRow) -> list[str]:
    said = []
    if worse := found.select("worse"):
        said.append(f"It is better than {_list_models(worse)}.")
    as_good = found.select("as_good")
    if cheaper := [row for row in as_good if row.share <= used.share]:
        verb = "is" if len(cheaper) == 1 else "are"
        said.append(f"{_list_models(cheaper)} {verb} as good within {format_margin(MARGIN)}.")
    if higher := [row for row in as_good if row.share > used.share]:
        said.append(f"It costs less than {_list_models(higher)}, and is as good within {format_margin(MARGIN)}.")
    if undecided := found.select("undecided"):
        against = f"Undecided against {_list_models(undecided)}"
        if page_answer.n_tasks < MIN_TASKS:
            return [*said, f"{against}: too few tasks to tell."]
        tasks = _describe_tasks([row.tasks_to_decide for row in undecided], page_answer.over)
        said.append(f"{against}. {tasks}")
    elif page_answer.n_tasks < MIN_TASKS:
        said.append(FEW_TASKS)
    return said


def _describe_tasks(tasks: list[int | None], over: MeasuredTasks) -> str:
    """How many tasks would decide all of the differences, of `tasks` for each; None stands for very many."""
    if None in tasks or (most := max(filter(None, tasks))) > over.dataset_tasks:
        return f"{over.dataset} has too few tasks to decide."
    return f"About {format_tasks_to_decide(most)} tasks would decide."


def _describe_first(page_answer: FirstPageAnswer) -> str:
    """When the first right answer came, if none came within the budget."""
    first_s = page_answer.compared.first_right_s
    if first_s is None:
        return f"None is right within {format_exact_seconds(page_answer.budget_s)} either, the longest measured time."
    return f"The first right answers come within {format_seconds(first_s)}."


def _list_models(rows: list[ModelRow]) -> str:
    names = [row.model for row in rows[:MAX_NAMES]]
    if rest := len(rows) - len(names):
        names.append(f"{rest} more")
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
