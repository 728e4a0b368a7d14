"""Prompts come from the Python files that are there, in an order that depends on the seed alone."""

from __future__ import annotations

import ast
from pathlib import Path

from decoding.training.statements import generate_statements

FILE = '''
import os

def first(path, *, strict=False) -> str:
    """Return the first line of a file, without its newline.

    >>> first("x")
    """

def second(a, b):
    """Add two numbers and round the result to the nearest ten."""

def undocumented(a):
    return a

def terse(a):
    """Too short."""

class C:
    def method(self):
        """A method cannot be called without its class, so it is left out."""
'''


def test_functions_alternate_between_signatures_and_instructions(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(FILE)
    one, other = generate_statements([tmp_path], 0)
    assert (one.kind, other.kind) == ("function", "instruction")
    assert one.text.startswith("def first(path, *, strict=False) -> str:\n")
    assert ast.get_docstring(ast.parse(one.text).body[0]).endswith('>>> first("x")')  # type: ignore[arg-type,union-attr]
    assert other.text == (
        "Write a Python function `second`: add two numbers and round the result to the nearest ten. It takes a, b."
    )


def test_the_order_depends_on_the_seed_alone(tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / f"f{i}.py").write_text(
            f'def f{i}(x):\n    """Return x multiplied by the number {i}, as a float."""\n'
        )
    assert list(generate_statements([tmp_path], 1)) == list(generate_statements([tmp_path], 1))
    assert list(generate_statements([tmp_path], 1)) != list(generate_statements([tmp_path], 2))


def test_files_that_cannot_be_read_and_tests_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "latin.py").write_bytes(b'def f():\n    """Caf\xe9 is not valid UTF-8 in this place."""\n')
    (tmp_path / "link.py").symlink_to(tmp_path / "nowhere")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(FILE)
    assert list(generate_statements([tmp_path], 0)) == []


def test_a_docstring_that_comes_twice_is_asked_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text('def f(x):\n    """Return the square root of a positive number x."""\n')
    assert len(list(generate_statements([tmp_path], 0))) == 1
