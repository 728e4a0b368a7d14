"""The two forms of a task: completion from a prompt, and infilling in the real file. Both are judged in the module."""

from __future__ import annotations

import ast
import builtins
import string
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.from_code.calls.cases import Case, build_objects_test, build_test
from evaluation.from_code.calls.observe import PlacedFunction
from evaluation.from_code.placing.spec import CALLS, VALUES, FunctionPlacement
from evaluation.from_code.source.closure import ModuleSources
from evaluation.from_code.source.context import (
    Context,
    build_frame,
    build_prompt,
    format_example_comments,
    read_solution,
)
from evaluation.from_code.source.find import ProjectFunction, get_decorator_name
from evaluation.from_code.source.project import Project
from evaluation.prompting import BLOCK_STOP

LINES_BEFORE = 80
LINES_AFTER = 40


def build_task_id(project: Project, function: ProjectFunction) -> str:
    """The id of a function's task: project, module and function; a setter or deleter has its kind too."""
    names = map(get_decorator_name, function.node.decorator_list)
    accessor = next((f".{name}" for name in names if name in ("setter", "deleter")), "")
    return f"{project.name}/{function.module.name}.{function.qualified}{accessor}"


def place_function(function: ProjectFunction, sources: ModuleSources) -> PlacedFunction:
    """The original in its module. Raises ExcludedError where that needs too much source."""
    module, node = function.module, function.node
    modules = {
        name: (each.is_package, each.source)
        for name, each in sources.find_closure(module).items()
        if name != module.name
    }
    owner = function.owner
    functions = [n for n in ast.walk(owner) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)] if owner else []
    spec = FunctionPlacement(
        module.name,
        module.is_package,
        function.qualified,
        "".join(module.lines[: node.lineno - 1]),
        "".join(module.lines[node.end_lineno or node.lineno :]),
        function.indent,
        tuple(sorted({each.name for each in functions})),
        modules,
    )
    return PlacedFunction(spec, ast.unparse(remove_decorators(node)))


def remove_decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """A function's definition without its decorators."""
    return ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), "decorator_list": []}), node)


def choose_test_form(cases: Sequence[Case]) -> str:
    """How a test calls the function: with plain data where every call and exception allows it, unless a message
    counts."""
    return CALLS if all(map(_fits_calls_form, cases)) and not any(case.promised for case in cases) else VALUES


def _fits_calls_form(case: Case) -> bool:
    outcome = case.outcome
    kind = getattr(builtins, outcome.raised[0], None) if outcome.raised else Exception
    is_builtin = isinstance(kind, type) and issubclass(kind, BaseException)
    return case.is_plain() and not outcome.iterates and is_builtin


def build_completion_row(
    project: Project,
    function: ProjectFunction,
    spec: FunctionPlacement,
    cases: Sequence[Case],
    source: Mapping[str, Any],
    context: Context,
    examples: Sequence[str],
) -> dict[str, Any]:
    """The task in completion form, as a record of a dataset file."""
    name = function.qualified
    test = build_test(cases) if spec.form == CALLS else build_objects_test(cases, name)
    return {
        "task_id": build_task_id(project, function),
        "prompt": build_prompt(project, function, context, LINES_BEFORE, examples, source["called"]),
        "entry_point": name,
        "canonical_solution": read_solution(function),
        "test": test,
        "module": spec.pack(),
        "stop": list_stops(function),
        "source": {**source, "examples": list(examples)},
    }


def build_infilling_row(
    completion: Mapping[str, Any], function: ProjectFunction, before: int, after: int
) -> dict[str, Any]:
    """The task in infilling form: the real file around the body, at most `before` and `after` lines of it, and the
    examples of the other form.

    The body is judged in the whole module. A sample ends where the function does, at the first line that is indented
    less than its body; many models would write on.
    """
    lines = function.module.lines
    start, end = function.solution_line - 1, function.node.end_lineno or len(lines)
    head = min(start, max(start - before, function.first_line - 1))
    notes = format_example_comments(
        function, completion["source"].get("examples", ()), completion["source"].get("called", ())
    )
    return {
        **completion,
        "prompt": "".join(lines[max(0, start - before) : head]) + notes + "".join(lines[head:start]),
        "suffix": "".join(lines[end : end + after]),
        "program_prefix": build_frame(function),
        "stop": [*BLOCK_STOP, *completion["stop"]],
    }


def list_stops(function: ProjectFunction) -> list[str]:
    """What ends a body besides an unindented line: a line that is indented as its `def`, or less."""
    steps = [" " * width for width in range(4, len(function.indent.expandtabs(8)) + 1, 4)]
    if function.indent and function.indent not in steps:
        steps.append(function.indent)
    marks = [c for c in string.printable if c not in string.whitespace + "#)]}"]
    return [f"\n{step}{mark}" for step in steps for mark in marks]
