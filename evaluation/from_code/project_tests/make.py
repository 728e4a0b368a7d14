"""The task of a function that the tests of its project judge."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from evaluation.from_code.build import BuildContext, TaskResult, describe_source, make_task_from_row
from evaluation.from_code.called import list_called_examples
from evaluation.from_code.calls.cases import Case, drop_volatile, format_case
from evaluation.from_code.calls.observe import CallOutcome
from evaluation.from_code.checks import repeat_calls
from evaluation.from_code.fairness import (
    MAX_EXAMPLE_CHARS,
    find_missing_description,
    find_needs,
    is_in_arguments,
    judge_fairness,
)
from evaluation.from_code.project_tests import checks
from evaluation.from_code.project_tests import suite as suites
from evaluation.from_code.project_tests.suite import ProjectSuite
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.context import build_prompt, read_solution
from evaluation.from_code.source.find import ProjectFunction
from evaluation.from_code.tasks import LINES_BEFORE, build_task_id, list_stops, place_function
from evaluation.from_code.unstated import BodyConstant, find_constants
from evaluation.project_tests.judge import ProjectJudge
from evaluation.project_tests.spec import ProjectTests
from evaluation.verdicts import Trust

JUDGE = "tests"


def make_task_from_tests(
    suite: ProjectSuite, work: BuildContext, function: ProjectFunction, must_be_strong: bool
) -> TaskResult:
    """The task of one function, checked, or the reason why there is none; `must_be_strong`: nobody wants it with weak
    tests."""
    return make_task_from_row(
        function,
        lambda: _build_row(suite, work, function, must_be_strong),
        reason="has code that is nested too deep to change",
    )


def _build_row(
    suite: ProjectSuite, work: BuildContext, function: ProjectFunction, must_be_strong: bool
) -> dict[str, Any]:
    spec, facts = suites.choose_function_tests(suite, work.project, work.recording.covering, function, must_be_strong)
    cases = _list_recorded_cases(work, function)
    context = work.options.context
    called = list_called_examples(function, work.recording)
    told = build_prompt(work.project, function, context, LINES_BEFORE, called=called)
    constants = find_constants(function.node, work.attribute_names, for_tests=True)
    untold = [each for each in constants if not each.is_in(told)]
    examples = _choose_examples(cases, function, untold)
    prompt = build_prompt(work.project, function, context, LINES_BEFORE, examples, called)
    assert suite.judge is not None
    unstated = list(map(str, _list_unstated(suite.judge, spec, function, untold, cases, examples)))
    if missing := find_missing_description(ast.get_docstring(function.node) or "", examples):
        unstated.append(missing)
    source = describe_source(work, function, JUDGE, Trust.IN_GUEST)
    facts |= {
        "examples": examples,
        "called": called,
        "unstated": unstated,
        "stated_share": round(max(0.0, 1 - len(unstated) / max(1, len(constants))), 4),
    }
    return {
        "task_id": build_task_id(work.project, function),
        "prompt": prompt,
        "entry_point": function.qualified,
        "canonical_solution": read_solution(function),
        "test": suites.format_tests(work.project, spec.tests),
        "project_tests": spec.to_json(),
        "stop": list_stops(function),
        "source": {**source, **facts},
    }


def _list_recorded_cases(work: BuildContext, function: ProjectFunction) -> list[Case]:
    """The recorded calls, of which some become examples and none judges: those that do in the sandbox what they did in
    the tests, with the branches that they take; all as recorded where the sandbox can make none. None has an address or
    the present date in it."""
    calls = [] if function.has_unknown_decorator else work.recording.calls.get(function.key, [])
    calls = [call for call in calls if not call.iterator]
    as_recorded = [
        Case(call.call, call.digest, CallOutcome(call.returned, call.raised, call.after), call.shape) for call in calls
    ]
    try:
        found = repeat_calls(work.sandbox, place_function(function, work.sources), calls)
    except ExcludedError:
        return drop_volatile(as_recorded)
    return drop_volatile(found.cases if found.cases or found.n_different else as_recorded)


def _choose_examples(cases: Sequence[Case], function: ProjectFunction, constants: Sequence[BodyConstant]) -> list[str]:
    """Examples for a prompt that does not hold these constants."""
    name = function.qualified
    docstring = ast.get_docstring(function.node) or ""
    texts = [format_case(case, name, MAX_EXAMPLE_CHARS) for case in cases]
    shown = [(each, [number for number, text in enumerate(texts) if each.is_in(text)]) for each in constants]
    return list(judge_fairness(cases, name, find_needs(cases, shown), docstring).examples)


def _list_unstated(
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
