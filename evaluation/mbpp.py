"""MBPP rows as HumanEval rows: a docstring with the first test as prompt, the tests as check(candidate)."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from evaluation.source import compile_error, parse


class ConversionError(ValueError):
    """An MBPP row that lacks something; the message starts with the field."""


def to_humaneval(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row in HumanEval's fields.

    The entry point is the function of `code` that the tests call. Its name in the tests becomes `candidate`,
    so that a grader can hand in whatever callable it judges.
    """
    text = _string(row, "text" if "text" in row else "prompt").strip()
    code = _string(row, "code").replace("\r\n", "\n")
    tests = _strings(row, "test_list")
    setup = row.get("test_setup_code") or "\n".join(row.get("test_imports") or [])
    entry_point = _entry_point(code, tests)
    checks = [line for test in tests for line in _renamed(test, entry_point).splitlines()]
    body = "\n".join(f"    {line}" for line in checks)
    docstring = f"{text}\n{tests[0]}".replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return {
        "task_id": f"MBPP/{row['task_id']}" if isinstance(row.get("task_id"), int) else row.get("task_id"),
        "prompt": f'"""\n{docstring}\n"""\n',
        "entry_point": entry_point,
        "test": f"{setup}\n\ndef check(candidate):\n{body}\n".lstrip("\n"),
        "canonical_solution": code if code.endswith("\n") else code + "\n",
    }


def _entry_point(code: str, tests: list[str]) -> str:
    tree = parse(code)
    if tree is None:
        raise ConversionError(f"field code: does not compile: {compile_error(code)}")
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    called: set[str] = set()
    for test in tests:
        parsed = parse(test)
        if parsed is None:
            raise ConversionError(f"field test_list: {test!r} does not compile: {compile_error(test)}")
        called |= {
            node.func.id for node in ast.walk(parsed) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
    candidates = [name for name in defined if name in called]
    if not candidates:
        raise ConversionError("field test_list: calls no function that code defines")
    return candidates[-1]


def _renamed(test: str, entry_point: str) -> str:
    """The test with every use of the entry point's name replaced by `candidate`, and nothing else changed."""
    tree = parse(test)
    lines = test.encode().splitlines(keepends=True)  # the syntax tree counts columns in UTF-8 bytes
    nodes = [] if tree is None else list(ast.walk(tree))
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == entry_point]
    for use in sorted(uses, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        line = lines[use.lineno - 1]
        lines[use.lineno - 1] = line[: use.col_offset] + b"candidate" + line[use.end_col_offset :]
    return b"".join(lines).decode()


def _string(row: Mapping[str, Any], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise ConversionError(f"field {field}: give a non-empty string")
    return value


def _strings(row: Mapping[str, Any], field: str) -> list[str]:
    value = row.get(field)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) and v.strip() for v in value):
        raise ConversionError(f"field {field}: give a list of assert statements")
    return value
