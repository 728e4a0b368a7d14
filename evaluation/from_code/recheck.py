"""Bodies without content for a finished task, from its stored form alone, to count how many tasks one of them passes.

The gate (`list_trivial_variants`) leaves such tasks out before they are stored, with more bodies than these; this
counts independently of it, judged as a model's answers are.
"""

from __future__ import annotations

from evaluation.datasets import Task
from evaluation.project_tests.splice import iterate_functions

_BODIES = ("pass", 'return ""', "return 0", "return True", "return []", "return {}", "raise ValueError")


def list_trivial_completions(task: Task) -> list[str]:
    """Completions of the task's prompt that do nothing, return a constant or the last argument, or raise."""
    solution = task.canonical_solution
    margin = solution[: len(solution) - len(solution.lstrip())]
    functions = [node for name, node in iterate_functions(task.build_program(solution)) if name == task.entry_point]
    arguments = [each.arg for node in functions[-1:] for each in (*node.args.posonlyargs, *node.args.args)]
    return [f"{margin}{body}\n" for body in (*_BODIES, *(f"return {name}" for name in arguments[-1:]))]
