"""Compiled packages of Bassline's environment that tests may import: numpy, which tests of HumanEval+ and MBPP+ use.

They belong to the judge: the checker has them, and the process of a program only where its test runs there. Only a slot
that judges such a test loads them, so other verdicts cost no more.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evaluation.sandbox.interpreter import Interpreter
from evaluation.sandbox.packages import PackagesError, stage_files
from evaluation.source import parse

PACKAGES = ("numpy",)
MODULES = ("numpy", "numpy.testing")
"""What is imported beforehand. The first is all that most tests use; older ones call numpy.testing.assert_allclose."""
_FOLDERS = ("numpy", "numpy.libs")
_SKIPPED = frozenset(("__pycache__", "tests", "f2py", "distutils", "include"))
_NOT_LOADED = (".pyi", ".a", ".h", ".c", ".txt", ".pxd")


@dataclass(frozen=True, slots=True)
class JudgePackages:
    """A copy of the packages that the user of the sandbox can read, and what is in it in a few words."""

    folder: str
    label: str

    def extend(self, python: Interpreter) -> Interpreter:
        """The interpreter with these packages in addition."""
        return python.with_judge_packages(self.folder, MODULES)


@functools.cache
def stage_judge_packages(version: tuple[int, int]) -> JudgePackages:
    """The packages for an interpreter of that version. Raises PackagesError where they cannot be used with it."""
    if version != sys.version_info[:2]:
        raise PackagesError(
            f"numpy is here for Python {sys.version_info[0]}.{sys.version_info[1]}, and the sandbox's Python is "
            f"{version[0]}.{version[1]}: let the sandbox's user read a Python of Bassline's version"
        )
    spec = importlib.util.find_spec("numpy")
    if spec is None or spec.origin is None:
        raise PackagesError("numpy is not installed beside Bassline: install it there with pip")
    site = Path(spec.origin).parents[1]
    files = {path.relative_to(site).as_posix(): path.read_bytes() for path in _iterate_files(site)}
    return JudgePackages(stage_files("numpy", files, compiled=True), f"numpy {importlib.metadata.version('numpy')}")


@functools.lru_cache(maxsize=4096)
def find_outside_imports(source: str, standard: frozenset[str]) -> tuple[str, ...]:
    """The packages outside the standard library that a text cannot do without: imported, and in no `try` that has an
    `except`."""
    tree = parse(source)
    if tree is None:
        return ()
    return tuple(sorted({name for name in _iterate_imports(tree) if name and name not in standard}))


def _iterate_imports(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Try) and child.handlers:
            continue  # it goes on without
        if isinstance(child, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and not child.level:
            yield (child.module or "").partition(".")[0]
        elif not isinstance(child, ast.expr):  # no import is in an expression, and the values of a test are large
            yield from _iterate_imports(child)


def _iterate_files(site: Path) -> Iterator[Path]:
    for folder in _FOLDERS:
        for path in sorted((site / folder).rglob("*")):
            parts = path.relative_to(site).parts
            if path.suffix not in _NOT_LOADED and not _SKIPPED.intersection(parts) and path.is_file():
                yield path
