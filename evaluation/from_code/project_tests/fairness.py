"""What the project's tests ask for that the prompt of a task does not tell, and the examples that tell it.

Recorded calls are only examples here: one tells a constant if its text holds it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from evaluation.from_code.calls.cases import Case, format_case
from evaluation.from_code.fairness import MAX_EXAMPLE_CHARS, find_needs, is_in_arguments, judge_fairness
from evaluation.from_code.project_tests import checks
from evaluation.from_code.source.find import ProjectFunction
from evaluation.from_code.unstated import BodyConstant
from evaluation.project_tests.judge import ProjectJudge
from evaluation.project_tests.spec import ProjectTests


def choose_examples(cases: Sequence[Case], function: ProjectFunction, constants: Sequence[BodyConstant]) -> list[str]:
    """Examples for a prompt that does not hold these constants."""
    name = function.qualified
    docstring = ast.get_docstring(function.node) or ""
    texts = [format_case(case, name, MAX_EXAMPLE_CHARS) for case in cases]
    shown = [(each, [number for number, text in enumerate(texts) if each.is_in(text)]) for each in constants]
    return list(judge_fairness(cases, name, find_needs(cases, shown), docstring).examples)


def list_unstated(
    judge: ProjectJudge,
    spec: ProjectTests,
    function: ProjectFunction,
    constants: Sequence[BodyConstant],
    cases: Sequence[Case],
    examples: Sequence[str],
) -> list[BodyConstant]:
    """The constants that the tests notice, of those that a prompt and its `examples` do not hold, nor a recorded
    call's arguments. Without examples separators and options count: nothing shows them."""
    open_ones = [
        each for each in constants
        if ((each.must_be_told and each.kind != "option") or not examples)
        and not any(map(each.is_in, examples)) and not any(is_in_arguments(each, case) for case in cases)
    ]  # fmt: skip
    variants = {source: each for each in open_ones for source in each.variants}
    noticed = checks.list_killed_variants(judge, spec, function, list(variants))
    return list(dict.fromkeys(variants[source] for source in noticed))
