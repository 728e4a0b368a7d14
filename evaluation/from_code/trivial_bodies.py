"""Bodies without content, none of which may pass the test of a task."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from evaluation.datasets import Task
from evaluation.project_tests.splice import iterate_functions
from evaluation.source import FunctionNode, list_arguments, list_positional_arguments

_STORED_BODIES = ("pass", 'return ""', "return 0", "return True", "return []", "return {}", "raise ValueError")


def list_trivial_variants(function: FunctionNode, raised: Sequence[str], is_generator: bool) -> list[str]:
    """The function with bodies that have no content: nothing, a constant, one of its arguments, an exception.

    `raised` are the exceptions that the original was seen to raise.
    """
    every = list_arguments(function.args, starred=True)
    constants = ("None", '""', "0", "1", "[]", "{}", "()", "True", "False", 'b""', "set()")
    bodies = ["pass", *(f"return {text}" for text in (*constants, *(argument.arg for argument in every)))]
    bodies += [f"raise {name}" for name in dict.fromkeys(("Exception", "NotImplementedError", *raised))]
    if is_generator:
        bodies += ["yield from ()", *(f"yield from {argument.arg}" for argument in every)]
    found = []
    for body in bodies:
        if isinstance(function, ast.AsyncFunctionDef) and body.startswith("yield from"):
            continue
        fields = {**dict(ast.iter_fields(function)), "body": ast.parse(f"def f():\n {body}").body[0].body}  # type: ignore[attr-defined]
        found.append(ast.unparse(ast.fix_missing_locations(ast.copy_location(type(function)(**fields), function))))
    return list(dict.fromkeys(found))


def list_trivial_completions(task: Task) -> list[str]:
    """Completions of a stored task's prompt that do nothing, return a constant or the last argument, or raise: to count
    how many tasks one of them passes, independently of `list_trivial_variants`, which left such tasks out."""
    solution = task.canonical_solution
    margin = solution[: len(solution) - len(solution.lstrip())]
    functions = [node for name, node in iterate_functions(task.build_program(solution)) if name == task.entry_point]
    arguments = [each.arg for node in functions[-1:] for each in list_positional_arguments(node.args)]
    return [f"{margin}{body}\n" for body in (*_STORED_BODIES, *(f"return {name}" for name in arguments[-1:]))]
