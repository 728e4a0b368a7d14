"""What a prompt shows: enough to write the body, in text that parses, and the file or the project where asked for."""

from __future__ import annotations

import pytest

from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.context import CONTEXTS, build_frame, build_prompt, read_solution
from evaluation.from_code.source.find import find_functions
from evaluation.source import find_compile_error, parse_open

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
    return next(f for f in find_functions(project) if f.qualified == name)


def test_a_function_is_shown_with_its_class_helpers_constants_and_imports(project):
    add = function(project, "Shelf.add")
    text = build_prompt(project, add)
    assert "\nimport math\nfrom typing import List\nfrom .low import base as up\n" in text, "helper needs them"
    assert "    29: 29,\n}\n" in text, "there is room for the whole constant"
    assert "return SIZES + [math.floor(x)]" in text
    assert (
        'class Shelf(dict):\n    """A shelf."""\n    limit = 3\n    def __init__(self, size):\n        self.size'
        in text
    )
    assert 'def other(self):\n        """Another method."""\n        ...\n' in text
    assert text.endswith('    def add(self, thing, amount=1):\n        """Adds a thing."""\n')
    assert read_solution(add).startswith("        if amount > self.limit")


def test_a_constructor_is_shown_with_the_attributes_of_its_class(project):
    assert "    # attributes: size, seen\n" in build_prompt(project, function(project, "Shelf.__init__"))


@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("name", ["helper", "Shelf.__init__", "Shelf.add", "Shelf.free", "separator"])
@pytest.mark.parametrize("before", [3, 25, 200])
def test_every_prompt_and_frame_parses_with_the_body_of_its_function(project, name, kind, before):
    found = function(project, name)
    for head in (build_prompt(project, found, kind, before, ["f(1) returns 2"]), build_frame(found)):
        assert parse_open(head) is not None
        assert find_compile_error(head + read_solution(found)) is None


def test_examples_are_shown_where_asked_for(project):
    text = build_prompt(project, function(project, "Shelf.add"), examples=["a(1) returns 2"])
    assert "    # For example:\n    # a(1) returns 2\n    def add" in text


def test_the_file_is_shown_as_far_as_it_fits_and_with_its_imports(project):
    text = build_prompt(project, function(project, "Shelf.add"), "file", 12)
    assert text.startswith("import json\nimport math, os\n")
    assert "class Shelf(dict):\n    @property\n    def free" in text
    assert "SIZES" not in text


def test_the_repository_adds_what_the_file_imports_from_the_project(project):
    text = build_prompt(project, function(project, "Shelf.add"), "repository")
    assert '# from pkg.low:\n# def base(x):\n#     """Low."""' in text


def test_a_long_context_is_cut_to_what_the_function_names_and_to_what_is_near(opened):
    methods = "".join(f"    def m{n}(self, {'a' * 60}):\n        pass\n" for n in range(200))
    helpers = "".join(f"def h{n}(x):\n    return '{'y' * 150}'\n" for n in range(120))
    calls = " + ".join(f"h{n}(x)" for n in range(40))
    source = f"{helpers}class Long:\n    def __init__(self):\n        pass\n{methods}"
    project = opened(m=f"{source}    def target(self, x):\n        return {calls} + self.m7(x)\n")

    text = build_prompt(project, function(project, "Long.target"))

    assert 15_000 < len(text) <= 16_000
    assert [name for name in ("h0", "h39", "__init__", "m7", "m199") if f"def {name}(" not in text] == []
    assert "def m8(" not in text
    assert parse_open(text) is not None


def test_a_prompt_whose_own_part_is_too_long_makes_no_task(opened):
    project = opened(m=f'def target(x):\n    """{"y" * 16_000}"""\n    return x\n')
    with pytest.raises(ExcludedError, match="needs a prompt of more than 16000 characters"):
        build_prompt(project, function(project, "target"))


LAZY = """
from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sys
    from collections.abc import Callable, Sequence

    if sys.version_info >= (3, 10):
        from typing import TypeAlias
    else:
        from typing_extensions import TypeAlias

    Rows: TypeAlias = "Sequence[int]"
    Unused = int


def total(rows: Rows, key: Callable[[int], int]) -> int:
    found = [key(row) for row in rows]
    return sum(found)
"""


@pytest.mark.parametrize("kind", CONTEXTS)
def test_what_type_checkers_alone_import_stays_under_its_condition(opened, kind):
    project = opened(m=LAZY)
    text = build_prompt(project, function(project, "total"), kind)
    assert text.startswith("from __future__ import annotations\n")
    assert "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import sys\n" in text
    assert "\nfrom " not in text
    assert "\nRows" not in text
    assert "        from typing import TypeAlias\n" in text
    assert "    Rows: TypeAlias = " in text
    assert ("Unused" in text) == (kind != "function")
    assert find_compile_error(text + "    return 1\n") is None


def test_a_typing_flag_is_imported_where_the_file_imports_it(opened):
    source = LAZY.replace("TYPE_CHECKING = False", "from typing import TYPE_CHECKING")
    project = opened(m=source)
    assert "from typing import TYPE_CHECKING\nif TYPE_CHECKING:" in build_prompt(project, function(project, "total"))


CLASSES = {
    "pkg/__init__.py": "",
    "pkg/base.py": """
class Base:
    kind: str = "base"

    def __init__(self, parent: "Base | None" = None):
        self.parent = parent
        self.children: list[Base] = []

    def find(self, name: str) -> "Base":
        return self.children[0]
""",
    "pkg/m.py": """
from .base import Base


class Store(Base):
    def __init__(self, size: int, *names):
        super().__init__()
        self.size = size
        self.names, self.seen = names, {}
"""
    + "".join(f"        self.line{n} = {n}\n" for n in range(30))
    + """
    def reset(self):
        self.cache = None
        self.size = 0

    def add(self, name):
        self.last = self.names
        self.children.append(self.find(name))
        return self.parent, self.kind, self.cache
""",
}


def test_the_attributes_of_a_class_are_named_with_types_and_values(opened):
    project = opened(CLASSES)
    text = build_prompt(project, function(project, "Store.add"))
    assert "        self.names, self.seen = names, {}\n" in text, "there is room for the constructor"
    assert "    #     cache = None, in reset()\n" in text
    assert "    #     last\n" in text, "the asked function sets it, so its value is not shown"
    assert "#     parent: 'Base | None' = parent\n" in text
    assert "#     children: list[Base] = []\n" in text
    assert "#     find(self, name: str) -> 'Base'\n" in text
    assert "#     kind: str = 'base'\n" in text
    assert find_compile_error(text + "        pass\n") is None


def test_classes_that_are_indented_by_tabs_are_shown_by_tabs(opened):
    filler = "".join(f"        self.a{number} = '{'y' * 60}'\n" for number in range(20))
    text = f"""
class Near:
    def __init__(self):
        self.kind = 1
{filler}
    @property
    def size(self) -> int:
        \"\"\"How many.

        All of them, that is.
        \"\"\"
{filler}        return 1

    def add(self, name):
        \"\"\"Adds.\"\"\"
        self.names.append(name)
        return len(self.names)
"""
    project = opened({"pkg/__init__.py": "", "pkg/m.py": text.replace("    ", "\t")})

    prompt = build_prompt(project, function(project, "Near.add"))

    assert find_compile_error(prompt + "\t\tpass\n") is None


def test_a_constructor_that_does_not_fit_is_shown_by_what_it_sets(opened):
    files = dict(CLASSES)
    files["pkg/m.py"] = files["pkg/m.py"].replace(
        "        super()", f"        self.text = '{'y' * 15_000}'\n        super()"
    )
    text = build_prompt(project := opened(files), function(project, "Store.add"))
    assert "    def __init__(self, size: int, *names): ...\n    # attributes:\n" in text
    assert f"    #     text = '{'y' * 60}...'\n    #     size: int = size\n" in text
    assert "    #     names = names\n    #     seen = {}\n" in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (dict.fromkeys(range(3000), "a"), "{0: 'a', 1: 'a', 2: 'a', 3: 'a', ...: ...}"),
        (
            [[n] * 9 for n in range(3000)],
            "[[0, 0, 0, 0, ...], [1, 1, 1, 1, ...], [2, 2, 2, 2, ...], [3, 3, 3, 3, ...], ...]",
        ),
        (tuple(range(9000)), "(0, 1, 2, 3, ...)"),
        ("y" * 20_000, f"'{'y' * 60}...'"),
    ],
)
def test_a_constant_that_does_not_fit_keeps_its_shape(opened, value, shown):
    project = opened(m=f"TABLE = {value!r}\n\n\ndef get(n):\n    found = TABLE[n]\n    return found\n")
    text = build_prompt(project, function(project, "get"))
    assert text.startswith(f"TABLE = {shown}  # shortened\n")
    namespace = {}
    exec(text + "    pass\n", namespace)
    assert type(namespace["TABLE"]) is type(value)


def test_a_made_constant_keeps_the_call_that_makes_it(opened):
    items = ", ".join(f"'{n}'" for n in range(4000))
    project = opened(
        m=f"KNOWN: frozenset = frozenset({{{items}}})\n\n\ndef has(n):\n    n += 1\n    return n in KNOWN\n"
    )
    text = build_prompt(project, function(project, "has"))
    assert text.startswith("KNOWN: frozenset = frozenset({'0', '1', '2', '3', ...})  # shortened\n")


def test_no_comment_at_the_top_names_an_encoding_by_chance(opened):
    modules = {
        "low": 'def read(file, encoding: str="utf-8"):\n    """Reads."""\n    x = 1\n    return x\n',
        "top": "import low\n\n\ndef f(x):\n    y = low.read(x)\n    return y\n",
    }
    project = opened(**modules)
    (function,) = [each for each in find_functions(project) if each.qualified == "f"]
    prompt = build_prompt(project, function)
    assert "# def read(file, encoding: str" in prompt
    compile((prompt + "    return low.read(x)\n").encode(), "answer.py", "exec")
