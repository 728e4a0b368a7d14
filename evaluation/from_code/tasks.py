"""The two forms of a task: completion from a self-contained prompt, and infilling in the real file."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.from_code.calls.cases import Case, test_of
from evaluation.from_code.calls.observe import Program
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.context import FUTURE, prompt_of, signature_of, solution_of
from evaluation.from_code.source.find import Function
from evaluation.from_code.source.project import Module, Project
from evaluation.prompting import BLOCK_STOP
from evaluation.source import compile_error

LINES_BEFORE = 80
LINES_AFTER = 40


def task_id(project: Project, function: Function) -> str:
    """The id of a function's task: project, module and function."""
    return f"{project.name}/{function.module.name}.{function.node.name}"


def program_of(project: Project, function: Function, packages: frozenset[str]) -> tuple[str, Program]:
    """(prompt, the original as a complete program). Raises ExcludedError."""
    prompt = prompt_of(project, function, packages)
    text = prompt + solution_of(function)
    if reason := compile_error(text):
        raise ExcludedError("does not compile outside its file", reason)
    head = signature_of(function)
    first = prompt.count("\n") - head.count("\n") + 1
    last = text.count("\n")
    return prompt, Program(text, function.node.name, first, last)


def with_body(prompt: str, function: Function, source: str) -> str:
    """The program with the function replaced by another source."""
    before = prompt[: len(prompt) - len(signature_of(function))]
    return f"{before}{source}\n"


def completion_row(
    project: Project, function: Function, prompt: str, cases: Sequence[Case], source: Mapping[str, Any]
) -> dict[str, Any]:
    """The task in completion form, as a record of a dataset file."""
    return {
        "task_id": task_id(project, function),
        "prompt": prompt,
        "entry_point": function.node.name,
        "canonical_solution": solution_of(function),
        "test": test_of(cases, exceptions_of(prompt)),
        "source": dict(source),
    }


def infilling_row(
    completion: Mapping[str, Any], function: Function, program_prefix: str, before: int, after: int
) -> dict[str, Any]:
    """The task in infilling form: the real file around the body, at most `before` and `after` lines of it.

    The program that is judged is `program_prefix` and the answer, because a window of a file does not run alone. A
    sample ends where the function does, at the first unindented line; many models would write on.
    """
    lines = function.module.lines
    start, end = function.solution_line - 1, function.node.end_lineno or len(lines)
    return {
        **completion,
        "prompt": "".join(lines[max(0, start - before) : start]),
        "suffix": "".join(lines[end : end + after]),
        "program_prefix": program_prefix,
        "stop": [*BLOCK_STOP, *completion.get("stop", ())],
    }


def with_imports(prompt: str, module: Module) -> str:
    """The completion form's prompt after the file's imports of the standard library, which an answer in the file may
    use."""
    future = f"{FUTURE}\n" if prompt.startswith(FUTURE) else ""
    imports = [ast.unparse(node) for node in module.tree.body if _is_of_stdlib(node)]
    return "".join(f"{line}\n" for line in [*future.splitlines(), *imports]) + prompt.removeprefix(future)


def _is_of_stdlib(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return all(alias.name.partition(".")[0] in sys.stdlib_module_names for alias in node.names)
    if not isinstance(node, ast.ImportFrom) or node.level or node.module == "__future__":
        return False
    return (node.module or "").partition(".")[0] in sys.stdlib_module_names


def exceptions_of(prompt: str) -> frozenset[str]:
    """The classes that a prompt defines; only exceptions are among them."""
    try:
        tree = ast.parse(prompt + "\n    pass\n")
    except SyntaxError:
        return frozenset()
    return frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef))
