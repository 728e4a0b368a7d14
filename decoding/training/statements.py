"""What the target is asked while its text is collected: signatures, docstrings and short tasks, none of them evaluated.

They are taken from Python files that are on the machine anyway: the standard library and the installed packages.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["function", "instruction"]
_SHORTEST, _LONGEST = 30, 800
"""The characters of a docstring that says what a function does, and does not fill the context by itself."""
_SKIPPED = {"test", "tests", "testing", "idlelib", "lib2to3", "__pycache__", "_vendor"}


@dataclass(frozen=True, slots=True)
class Statement:
    """A task for the target: `text` is Python with an open function (`function`), or one sentence (`instruction`)."""

    kind: Kind
    text: str


def list_installed_folders() -> list[Path]:
    """Return the folders of the standard library and of the installed packages."""
    paths = sysconfig.get_paths()
    return [Path(paths["stdlib"]), *dict.fromkeys(Path(paths[name]) for name in ("purelib", "platlib"))]


def generate_statements(folders: Sequence[Path], seed: int) -> Iterator[Statement]:
    """Yield statements from the Python files in some folders, in an order that depends on `seed` alone.

    Every second function gives its signature with its docstring, the others one sentence, as in MBPP. The
    same docstring is used once.
    """
    files = sorted({file for folder in folders for file in folder.rglob("*.py") if not _SKIPPED & set(file.parts)})
    random.Random(seed).shuffle(files)
    seen: set[str] = set()
    count = 0
    for file in files:
        for function in _find_functions(file):
            doc = ast.get_docstring(function) or ""
            if doc not in seen and _SHORTEST <= len(doc) <= _LONGEST and doc.isascii():
                seen.add(doc)
                count += 1
                yield _build_signature(function, doc) if count % 2 else _build_instruction(function, doc)


def _find_functions(file: Path) -> list[ast.FunctionDef]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other people's code
            tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _build_signature(function: ast.FunctionDef, doc: str) -> Statement:
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    quoted = doc.replace("\\", "\\\\").replace('"""', "'''").replace("\n", "\n    ")
    head = f"def {function.name}({ast.unparse(function.args)}){returns}:"
    return Statement("function", f'{head}\n    """{quoted}\n    """\n')


def _build_instruction(function: ast.FunctionDef, doc: str) -> Statement:
    first = re.split(r"(?<=\.)\s|\n\n", doc)[0].strip().replace("\n", " ").rstrip(".")
    names = [argument.arg for argument in function.args.args]
    given = f" It takes {', '.join(names)}." if names else ""
    sentence = first[:1].lower() + first[1:]
    return Statement("instruction", f"Write a Python function `{function.name}`: {sentence}.{given}")
