"""The task of a function that the tests of its project judge."""

from __future__ import annotations

import ast
import time
from typing import Any

from evaluation.from_code.build import BUILDER, TaskResult
from evaluation.from_code.project_tests import suite as suites
from evaluation.from_code.project_tests.covering import Covering
from evaluation.from_code.project_tests.prompt import Place, owners_of, prompt_of
from evaluation.from_code.project_tests.suite import Suite
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.find import Function, code_lines
from evaluation.from_code.source.project import Project
from evaluation.from_code.source.provenance import Origin

MIN_LINES, MAX_LINES = 2, 80


def make(suite: Suite, covering: Covering, project: Project, origin: Origin, function: Function) -> TaskResult:
    """The task of one function, checked, or the reason why there is none."""
    started = time.monotonic()
    try:
        row = _row(suite, covering, project, origin, function)
        made = TaskResult(function.key, row, row["prompt"])
    except ExcludedError as reason:
        made = TaskResult(function.key, reason=reason.reason, detail=reason.detail)
    made.seconds = round(time.monotonic() - started, 2)
    return made


def _row(suite: Suite, covering: Covering, project: Project, origin: Origin, function: Function) -> dict[str, Any]:
    lines = code_lines(function.node)
    if lines < MIN_LINES:
        raise ExcludedError(f"has fewer than {MIN_LINES} lines without its docstring")
    if lines > MAX_LINES:
        raise ExcludedError(f"has more than {MAX_LINES} lines without its docstring")
    if not function.solution_line:
        raise ExcludedError("has its body on the line of its signature or docstring")
    owners = owners_of(function.module, function.node)
    if owners is None:
        raise ExcludedError("is defined under a condition")
    place = Place(function.module, function.node, owners, function.solution_line)
    source = {
        "project": project.name,
        "version": origin.version,
        "commit": origin.commit,
        "licence": origin.licence,
        "file": function.module.path,
        "line": function.node.lineno,
        "kind": kind_of(place),
        "builder": BUILDER,
    }
    row = suites.checked_row(suite, covering, function, prompt_of(place), place.solution(), source)
    return {
        "task_id": f"{project.name}/{function.module.name}.{function.qualified}",
        "entry_point": function.qualified.partition(".")[0],
        "test": suites.shown(project, row["project_tests"]["tests"]),
        "stop": list(_stops(place)),
        **row,
    }


def _stops(place: Place) -> tuple[str, ...]:
    """What ends a sample: the next definition beside the function in its class."""
    margin = " " * place.node.col_offset
    return tuple(f"\n{margin}{word}" for word in ("def ", "async def ", "class ", "@")) if place.owners else ()


def kind_of(place: Place) -> str:
    """What a function is for a reader: function, method, property, classmethod, staticmethod or constructor."""
    if not place.owners:
        return "function"
    if place.node.name == "__init__":
        return "constructor"
    words = {word for each in place.node.decorator_list for word in _names_in(each)}
    if words & {"property", "cached_property", "setter", "deleter", "getter"}:
        return "property"
    return next((name for name in ("classmethod", "staticmethod") if name in words), "method")


def _names_in(node: ast.expr) -> set[str]:
    """The names in an expression."""
    return {str(getattr(each, "id", None) or getattr(each, "attr", "")) for each in ast.walk(node)}
