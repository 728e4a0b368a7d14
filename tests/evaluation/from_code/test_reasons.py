"""Every reason for leaving a function out says what would help, and no remedy is left of a reason that is gone."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluation import from_code
from evaluation.from_code.build import make_task_from_row
from evaluation.from_code.reasons import REMEDIES, find_remedy

FOLDER = Path(from_code.__file__).parent
OWN_TEXTS = ("source/find.py", "build.py")
"""Files that give reasons in other ways too: by return values and variables."""
BEGINNINGS = ("is a ", "has ")


def find_reasons() -> Iterator[str]:
    for path in sorted(FOLDER.rglob("*.py")):
        name = path.relative_to(FOLDER).as_posix()
        tree = ast.parse(path.read_text("utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found: list[ast.expr] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "ExcludedError":
                found += node.args[:1]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("TaskResult", "make_task_from_row"):
                found += [each.value for each in node.keywords if each.arg == "reason"]
            elif isinstance(node, ast.Constant | ast.JoinedStr) and name in OWN_TEXTS and id(node) not in docs:
                text = node.values[0] if isinstance(node, ast.JoinedStr) else node
                whole = isinstance(text, ast.Constant) and isinstance(text.value, str) and " " in text.value.strip()
                found += [node] if whole and text.value.startswith(BEGINNINGS) else []  # type: ignore[attr-defined]
        if not found:
            continue
        module = vars(importlib.import_module("evaluation.from_code." + name.removesuffix(".py").replace("/", ".")))
        for each in found:
            for node in (each.body, each.orelse) if isinstance(each, ast.IfExp) else (each,):
                yield from read_text(node, module)


def read_text(node: ast.expr, module: dict[str, object]) -> Iterator[str]:
    """The text of a constant, its name or an f-string; a value that only a call knows is left empty."""
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.Name) and isinstance(text := module.get(node.id), str):
        yield text
    elif isinstance(node, ast.JoinedStr):
        parts = []
        for part in node.values:
            try:
                parts.append(eval(ast.unparse(ast.JoinedStr([part])), module))
            except NameError:
                parts.append("")
        yield "".join(parts)


REASONS = sorted(set(find_reasons()))


def test_the_reasons_are_found() -> None:
    assert len(REASONS) > 30
    assert "has fewer than 2 calls whose arguments and results are data" in REASONS


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_a_remedy(reason: str) -> None:
    partial = reason.endswith((" ", "than ")) or len(reason) < 10
    assert partial or find_remedy(reason), "declare what would help in reasons.REMEDIES"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 writes every f-string")
def test_an_f_string_that_python_cannot_write_again_costs_one_function() -> None:
    (function,) = ast.parse("def f(a):\n    return f\"{a or '\u200b'}\"").body
    found = make_task_from_row(SimpleNamespace(key="f"), lambda: {"body": ast.unparse(function)}, "")  # type: ignore[arg-type]
    assert find_remedy(found.reason)


@pytest.mark.parametrize("start", [start for start, _remedy in REMEDIES])
def test_every_remedy_belongs_to_a_reason_that_it_decides(start: str) -> None:
    ends = ["", "before the tests ended", "while the tests ran"]
    texts = [reason + end for reason in REASONS for end in ends]
    assert any(next((each for each, _ in REMEDIES if text.startswith(each)), "") == start for text in texts)
