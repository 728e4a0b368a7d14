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
    if answer.verdict is None:
        limits = format_interval(answer.use_interval, n)
        return [
            (f"{where} ", ArmName(answer.use), f" is right for {format_percent(answer.use_pass_first, n)} ({limits}).")
        ]
    if answer.verdict == "undecided":
        sentences: list[Sentence] = [(f"{where} the best so far is ", ArmName(answer.use), f": {share}.")]
        if answer.use != answer.arm:
            sentences.append(_describe_substitute(answer, over))
        sentences.append(_describe_undecided(answer, n))
    else:
        sentences = [(f"{where} use ", ArmName(answer.use), f": {share}.")]
        sentences.append(_describe_verdict(answer, over))
    if not _is_undecided_only_against_cheaper(answer):
        sentences += _describe_cheaper(answer, n)
    if answer.verdict == "undecided" and answer.tasks_to_decide is not None:
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


def _describe_verdict(answer: BudgetAnswer, over: MeasuredTasks) -> Sentence:
    if answer.verdict == "better":
        return (
            "It is better than ",
            *([ArmName(answer.against or "")] if answer.n_arms == 2 else ["every other one"]),
            ".",
        )
    within = f"within {format_margin(answer.margin)}"
    if answer.use != answer.arm:
        return _describe_substitute(answer, over)
    verb = "is" if len(answer.as_good) == 1 else "are"
    return (*_list_names(answer.as_good), f" {verb} as good {within}.")


def _describe_substitute(answer: BudgetAnswer, over: MeasuredTasks) -> Sentence:
    """Why the arm to use is not the one with the highest Pass@First."""
    highest = f" ({format_percent(answer.pass_first, over.n_tasks)})"
    return (
        "It is cheaper than ",
        ArmName(answer.arm or ""),
        f"{highest} and as good within {format_margin(answer.margin)}.",
    )


def _describe_undecided(answer: BudgetAnswer, n_tasks: int) -> Sentence:
    if not _is_undecided_only_against_cheaper(answer):
        return ("Undecided against ", *_list_names(answer.undecided), ".")
    (one,) = answer.cheaper_not_worse
    worse = format_unsigned_points(one.worse_by_at_most, n_tasks)
    return ("Undecided against ", ArmName(one.arm), f", which is cheaper and up to {worse} points worse.")


def _is_undecided_only_against_cheaper(answer: BudgetAnswer) -> bool:
    """Whether one arm is undecided, and it is the only cheaper one to mention: one sentence is enough for it."""
    return len(answer.undecided) == 1 and [one.arm for one in answer.cheaper_not_worse] == list(answer.undecided)


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
