"""The two forms of a task: completion from a prompt, and infilling in the real file. Both are judged in the module."""

from __future__ import annotations

import ast
import builtins
import string
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.from_code.calls.cases import Case, source_of_objects_test, source_of_test
from evaluation.from_code.calls.observe import Program
from evaluation.from_code.placing.spec import CALLS, VALUES, Spec
from evaluation.from_code.source.closure import Sources
from evaluation.from_code.source.context import Context, frame_of, notes_of, prompt_of, solution_of
from evaluation.from_code.source.find import Function, name_decorator
from evaluation.from_code.source.project import Project
from evaluation.prompting import BLOCK_STOP

LINES_BEFORE = 80
LINES_AFTER = 40


def task_id(project: Project, function: Function) -> str:
    """The id of a function's task: project, module and function; a setter has its kind too."""
    names = map(name_decorator, function.node.decorator_list)
    accessor = next((f".{name}" for name in names if name in ("setter", "deleter")), "")
    return f"{project.name}/{function.module.name}.{function.qualified}{accessor}"


def program_of(function: Function, sources: Sources) -> Program:
    """The original in its module. Raises ExcludedError where that needs too much source."""
    module, node = function.module, function.node
    modules = {
        name: (each.is_package, each.source) for name, each in sources.closure(module).items() if name != module.name
    }
    owner = function.owner
    functions = [n for n in ast.walk(owner) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)] if owner else []
    spec = Spec(
        module.name,
        module.is_package,
        function.qualified,
        "".join(module.lines[: node.lineno - 1]),
        "".join(module.lines[node.end_lineno or node.lineno :]),
        function.indent,
        tuple(sorted({each.name for each in functions})),
        modules,
    )
    return Program(spec, definition_source(node))


def definition_source(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A function's definition as source of its own, without its decorators."""
    bare = type(node)(**{**dict(ast.iter_fields(node)), "decorator_list": []})
    return ast.unparse(ast.fix_missing_locations(ast.copy_location(bare, node)))


def form_of(cases: Sequence[Case]) -> str:
    """How a test calls the function: with plain data where every call and exception allows it, unless a message
    counts."""
    return CALLS if all(map(_is_plain, cases)) and not any(case.promised for case in cases) else VALUES


def _is_plain(case: Case) -> bool:
    outcome = case.outcome
    return case.is_plain() and not outcome.iterates and (not outcome.raised or _is_builtin(outcome.raised[0]))


def _is_builtin(name: str) -> bool:
    return isinstance(getattr(builtins, name, None), type)


def completion_row(
    project: Project,
    function: Function,
    spec: Spec,
    cases: Sequence[Case],
    source: Mapping[str, Any],
    context: Context,
    examples: Sequence[str],
) -> dict[str, Any]:
    """The task in completion form, as a record of a dataset file."""
    name = function.qualified
    test = source_of_test(cases, frozenset()) if spec.form == CALLS else source_of_objects_test(cases, name)
    return {
        "task_id": task_id(project, function),
        "prompt": prompt_of(project, function, context, LINES_BEFORE, examples, source["called"]),
        "entry_point": name,
        "canonical_solution": solution_of(function),
        "test": test,
        "module": spec.packed(),
        "stop": stops_of(function),
        "source": {**source, "examples": list(examples)},
    }


def infilling_row(completion: Mapping[str, Any], function: Function, before: int, after: int) -> dict[str, Any]:
    """The task in infilling form: the real file around the body, at most `before` and `after` lines of it, and the
    examples of the other form.

    The body is judged in the whole module. A sample ends where the function does, at the first line that is indented
    less than its body; many models would write on.
    """
    lines = function.module.lines
    start, end = function.solution_line - 1, function.node.end_lineno or len(lines)
    head = min(start, max(start - before, function.first_line - 1))
    notes = notes_of(function, completion["source"].get("examples", ()), completion["source"].get("called", ()))
    return {
        **completion,
        "prompt": "".join(lines[max(0, start - before) : head]) + notes + "".join(lines[head:start]),
        "suffix": "".join(lines[end : end + after]),
        "program_prefix": frame_of(function),
        "stop": [*BLOCK_STOP, *completion["stop"]],
    }


def stops_of(function: Function) -> list[str]:
    """What ends a body besides an unindented line: a line that is indented as its `def`, or less."""
    steps = [" " * width for width in range(4, len(function.indent.expandtabs(8)) + 1, 4)]
    if function.indent and function.indent not in steps:
        steps.append(function.indent)
    marks = [c for c in string.printable if c not in string.whitespace + "#)]}"]
    return [f"\n{step}{mark}" for step in steps for mark in marks]
