"""Bodies without content, none of which may pass the test of a task."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from evaluation.datasets import Task
from evaluation.project_tests.splice import iterate_functions
from evaluation.source import FunctionNode, list_arguments, list_positional_arguments

_STORED_BODIES = ("pass", 'return ""', "return 0", "return True", "return []", "return {}", "raise ValueError")


def list_identities(function: FunctionNode, is_generator: bool) -> list[str]:
    """The function with bodies that give an argument back."""
    names = [argument.arg for argument in list_arguments(function.args, starred=True)]
    return _replace_body(
        function, [*(f"return {name}" for name in names), *_list_yields(function, names, is_generator)]
    )


def list_trivial_variants(function: FunctionNode, raised: Sequence[str], is_generator: bool) -> list[str]:
    """The function with bodies that have no content: nothing, a constant, one of its arguments, an exception.

    `raised` are the exceptions that the original was seen to raise.
    """
    names = [argument.arg for argument in list_arguments(function.args, starred=True)]
    constants = ("None", '""', "0", "1", "[]", "{}", "()", "True", "False", 'b""', "set()")
    bodies = ["pass", *(f"return {text}" for text in (*constants, *names))]
    bodies += [f"raise {name}" for name in dict.fromkeys(("Exception", "NotImplementedError", *raised))]
    return _replace_body(function, [*bodies, *_list_yields(function, ("()", *names), is_generator)])


def _list_yields(function: FunctionNode, names: Sequence[str], is_generator: bool) -> list[str]:
    can_yield_from = is_generator and not isinstance(function, ast.AsyncFunctionDef)
    return [f"yield from {name}" for name in names] if can_yield_from else []


def _replace_body(function: FunctionNode, bodies: Sequence[str]) -> list[str]:
    """The function with each of these bodies, without repetitions."""
    found = []
    for body in bodies:
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
