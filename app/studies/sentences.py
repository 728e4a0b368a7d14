"""The answer of a study in words: the same on the command line, on pages, in Markdown and in JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from app.web.ui.tables import ArmName
from app.web.ui.units import format_count, format_exact_seconds, format_interval, format_percent, format_unsigned_points
from evaluation.studies.answer import BudgetAnswer

MAX_NAMES = 3
"""Arms that a sentence names; the rest are counted."""


class MeasuredTasks(NamedTuple):
    """The tasks that an answer is about."""

    n_tasks: int
    dataset: str
    dataset_tasks: int
    whose: str = ""  # such as "of your code", after the number of tasks


Sentence = tuple[str, ...]
"""Its parts; the names of arms are ArmName."""


def describe_answer(answer: BudgetAnswer, over: MeasuredTasks) -> list[Sentence]:
    """The arm to use with its figures, what is shown about it, the cheaper arms, and what would decide."""
    n = over.n_tasks
    where = " ".join(
        filter(None, ("On", format_count(n, "task"), over.whose, "within", format_exact_seconds(answer.budget_s)))
    )
    if answer.use is None:
        return [(f"{where} no chosen sample passes.",)]
    share = f"{format_percent(answer.use_pass_first, n)} right ({format_interval(answer.use_interval, n)})"
    verb = "the best so far is" if answer.verdict == "undecided" else "use"
    sentences: list[Sentence] = [(f"{where} {verb} ", ArmName(answer.use), f": {share}.")]
    if answer.arm is not None and answer.use != answer.arm:
        highest = f" ({format_percent(answer.pass_first, n)})"
        as_good = f"{highest} and as good within {format_margin(answer.margin)}."
        sentences.append(("It is cheaper than ", ArmName(answer.arm), as_good))
    elif answer.verdict == "as_good":
        be = "is" if len(answer.as_good) == 1 else "are"
        sentences.append((*_list_names(answer.as_good), f" {be} as good within {format_margin(answer.margin)}."))
    if answer.verdict == "better":
        others = ArmName(answer.against or "") if answer.n_arms == 2 else "every other one"
        sentences.append(("It is better than ", others, "."))
    if answer.undecided:
        sentences.append(("Undecided against ", *_list_names(answer.undecided), "."))
    sentences += _describe_cheaper(answer, n)
    if answer.tasks_to_decide is not None:
        sentences.append((_describe_tasks(answer.tasks_to_decide, answer.margin, over),))
    return sentences


def describe_briefly(answer: BudgetAnswer, n_tasks: int) -> Sentence:
    """The arm to use and the verdict, without the details."""
    within = f"Within {format_exact_seconds(answer.budget_s)}"
    if answer.use is None:
        return (f"{within} no chosen sample passes.",)
    share = f"{format_percent(answer.use_pass_first, n_tasks)} ({format_interval(answer.use_interval, n_tasks)})"
    if answer.verdict == "undecided":
        return (f"{within} undecided; the best so far is ", ArmName(answer.use), f": {share}.")
    return (f"{within} use ", ArmName(answer.use), f": {share}.")


def describe_study(answers: Sequence[BudgetAnswer], over: MeasuredTasks) -> str:
    """All answers, the last, at the study's own budget, with its details first."""
    *before, last = answers
    sentences = [*describe_answer(last, over), *(describe_briefly(answer, over.n_tasks) for answer in before)]
    return to_text(sentences)


def to_text(sentences: Sequence[Sentence], name: Callable[[str], str] = str) -> str:
    """The sentences as one text, each arm by its name or by what `name` calls it."""
    return " ".join(
        "".join(name(part) if isinstance(part, ArmName) else part for part in sentence) for sentence in sentences
    )


def format_margin(margin: float) -> str:
    """A margin as read: `5 points`."""
    value = f"{100 * margin:g}"
    return f"{value} point" if value == "1" else f"{value} points"


def format_verdict(answer: BudgetAnswer) -> str:
    """The verdict of an answer as a cell of a table has it: `better`, `as good within 5 points`, `undecided`."""
    if answer.verdict == "as_good":
        return f"as good within {format_margin(answer.margin)}"
    return answer.verdict or ""


def format_tasks_to_decide(tasks: int) -> str:
    """A number of tasks rounded up to two significant digits, because it is an estimate."""
    unit: int = 10 ** max(len(str(tasks)) - 2, 0)
    return f"{-(-tasks // unit) * unit:,}"


def _describe_cheaper(answer: BudgetAnswer, n_tasks: int) -> Iterator[Sentence]:
    listed = answer.cheaper_not_worse[:MAX_NAMES]
    for one in listed:
        yield (
            ArmName(one.arm),
            f" is cheaper and up to {format_unsigned_points(one.worse_by_at_most, n_tasks)} points worse.",
        )
    if rest := len(answer.cheaper_not_worse) - len(listed):
        yield (f"{rest} more {'is' if rest == 1 else 'are'} cheaper and not shown to be worse.",)


def _describe_tasks(tasks: int, margin: float, over: MeasuredTasks) -> str:
    said = f"About {format_tasks_to_decide(tasks)} tasks would decide a difference of {format_margin(margin)}"
    return f"{said}; {over.dataset} has {over.dataset_tasks:,}." if tasks > over.dataset_tasks else f"{said}."


def _list_names(arms: Sequence[str]) -> Iterator[str]:
    listed = arms if len(arms) <= MAX_NAMES else arms[: MAX_NAMES - 1]
    rest = len(arms) - len(listed)
    for place, arm in enumerate(listed):
        if place:  # names of arms have commas
            yield " and " if place == len(arms) - 1 else "; "
        yield ArmName(arm)
    if rest:
        yield f" and {rest} others"
