"""What a prompt shows: enough to write the body, in text that parses, and the file or the project where asked for."""

from __future__ import annotations

import pytest

from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.context import CONTEXTS, frame_of, prompt_of, solution_of
from evaluation.from_code.source.find import find
from evaluation.source import compile_error, parse_open

STORE = (
    '''
"""Shelves."""

import json
import math, os
from typing import List, Dict

from . import low
from .low import base as up

SIZES = [1]
TABLE = {
'''
    + "".join(f"    {n}: {n},\n" for n in range(30))
    + '''}


def helper(x: List):
    """Helps.

    At length.
    """
    return SIZES + [math.floor(x)]


class Shelf(dict):
    """A shelf."""

    limit = 3

    def __init__(self, size):
        self.size = size

    def other(self):
        """Another method.

        With more text.
        """
        self.seen = True
        return low.base(1)

    @property
    def free(self) -> int:
        """How much is free."""
        return self.size - len(self)

    def add(self, thing, amount=1):
        """Adds a thing."""
        if amount > self.limit or thing in TABLE:
            raise ValueError(helper(amount))
        self[thing] = up(amount)


if os.name == "posix":

    def separator(text):
        return text + os.sep
'''
)


@pytest.fixture
def project(opened):
    return opened({
        "pkg/__init__.py": "", "pkg/low.py": 'def base(x):\n    """Low."""\n    return x + 1\n', "pkg/m.py": STORE,
    })  # fmt: skip


def function(project, name):
    return next(f for f in find(project) if f.qualified == name)


def test_a_function_is_shown_with_its_class_helpers_constants_and_imports(project):
    add = function(project, "Shelf.add")
    text = prompt_of(project, add)
    assert text.startswith("import math\nfrom typing import List\nfrom .low import base as up\n"), "helper needs them"
    assert "TABLE = ...  # shortened" in text
    assert 'def helper(x: List):\n    """Helps."""\n    ...' in text or "return SIZES" in text
    assert (
        'class Shelf(dict):\n    """A shelf."""\n    limit = 3\n    def __init__(self, size):\n        self.size'
        in text
    )
    assert 'def other(self):\n        """Another method."""\n        ...\n' in text
    assert text.endswith('    def add(self, thing, amount=1):\n        """Adds a thing."""\n')
    assert solution_of(add).startswith("        if amount > self.limit")


def test_a_constructor_is_shown_with_the_attributes_of_its_class(project):
    assert "    # attributes: size, seen\n" in prompt_of(project, function(project, "Shelf.__init__"))


@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("name", ["helper", "Shelf.__init__", "Shelf.add", "Shelf.free", "separator"])
@pytest.mark.parametrize("before", [3, 25, 200])
def test_every_prompt_and_frame_parses_with_the_body_of_its_function(project, name, kind, before):
    found = function(project, name)
    for head in (prompt_of(project, found, kind, before, ["f(1) returns 2"]), frame_of(found)):
        assert parse_open(head) is not None
        assert compile_error(head + solution_of(found)) is None


def test_examples_are_shown_where_asked_for(project):
    text = prompt_of(project, function(project, "Shelf.add"), examples=["a(1) returns 2"])
    assert "    # For example:\n    # a(1) returns 2\n    def add" in text


def test_the_file_is_shown_as_far_as_it_fits_and_with_its_imports(project):
    text = prompt_of(project, function(project, "Shelf.add"), "file", 12)
    assert text.startswith("import json\nimport math, os\n")
    assert "class Shelf(dict):\n    @property\n    def free" in text
    assert "SIZES" not in text


def test_the_repository_adds_what_the_file_imports_from_the_project(project):
    text = prompt_of(project, function(project, "Shelf.add"), "repository")
    assert '# from pkg.low:\n# def base(x):\n#     """Low."""' in text


def test_a_long_context_is_cut_to_what_the_function_names_and_to_what_is_near(opened):
    methods = "".join(f"    def m{n}(self, {'a' * 60}):\n        pass\n" for n in range(200))
    helpers = "".join(f"def h{n}(x):\n    return '{'y' * 150}'\n" for n in range(120))
    calls = " + ".join(f"h{n}(x)" for n in range(40))
    source = f"{helpers}class Long:\n    def __init__(self):\n        pass\n{methods}"
    project = opened(m=f"{source}    def target(self, x):\n        return {calls} + self.m7(x)\n")

    text = prompt_of(project, function(project, "Long.target"))

    assert 15_000 < len(text) <= 16_000
    assert [name for name in ("h0", "h39", "__init__", "m7", "m199") if f"def {name}(" not in text] == []
    assert "def m8(" not in text
    assert parse_open(text) is not None


def test_a_prompt_whose_own_part_is_too_long_makes_no_task(opened):
    project = opened(m=f'def target(x):\n    """{"y" * 16_000}"""\n    return x\n')
    with pytest.raises(ExcludedError, match="needs a prompt of more than 16000 characters"):
        prompt_of(project, function(project, "target"))
