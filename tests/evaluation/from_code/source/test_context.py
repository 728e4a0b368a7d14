"""A prompt holds what its function needs, in an order that runs, and nothing of the installed packages."""

from __future__ import annotations

import pytest

from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.context import prompt_of, solution_of
from evaluation.from_code.source.find import find

TARGET = '''

def target(x):
    """Uses things."""
    y = {uses}
    # a comment
    return y
'''


def prompt(project, name="target"):
    function = next(f for f in find(project) if f.qualified == name)
    return prompt_of(project, function), solution_of(function)


def ran(project, *arguments):
    namespace: dict[str, object] = {}
    exec("".join(prompt(project)), namespace)
    return namespace["target"](*arguments)


def test_helpers_constants_and_imports_are_taken_and_the_rest_is_not(opened):
    source = (
        "import json\nimport math, os\nfrom typing import List, Dict\nSIZES = [1]\nSIZES.append(2)\nOTHER = 3\n"
        "def unused():\n    return 1\n\n\ndef helper(x: List):\n    return SIZES + [math.floor(x)]\n"
    )
    project = opened(m=source + TARGET.format(uses="helper(x)"))
    before, solution = prompt(project)
    assert ran(project, 2.5) == [1, 2, 2]
    assert before.startswith("import math\nfrom typing import List\n\nSIZES = [1]\nSIZES.append(2)\n\n\ndef helper")
    assert before.endswith('def target(x):\n    """Uses things."""\n')
    assert solution == "    y = helper(x)\n    # a comment\n    return y\n"


def test_helpers_of_other_modules_come_first_and_renamed_ones_keep_their_new_name(opened):
    project = opened(
        {"pkg/__init__.py": "", "pkg/low.py": "def base(x):\n    return x + 1\n"},
        m="from pkg.low import base as up\nTABLE = [up(1)]\n" + TARGET.format(uses="up(x) + TABLE[0]"),
    )  # fmt: skip
    assert ran(project, 1) == 4


def test_a_package_that_imports_its_name_from_the_top_is_followed(opened):
    project = opened({
        "pkg/__init__.py": "from pkg.low import base\n", "pkg/low.py": "def base(x):\n    return x + 1\n",
        "pkg/m.py": "from . import base\n" + TARGET.format(uses="base(x)"),
    })  # fmt: skip
    assert ran(project, 1) == 2


def test_the_same_import_or_constant_in_two_modules_is_one(opened):
    both = "from itertools import chain\nSEPARATOR = '-'\n"
    project = opened(
        low=both + "def base(x):\n    return SEPARATOR.join(chain(x))\n",
        m=both + "from low import base\n" + TARGET.format(uses="base(list(chain(x))) + SEPARATOR"),
    )
    assert ran(project, ["a", "b"]) == "a-b-"


def test_a_type_of_the_project_in_an_annotation_alone_is_not_needed(opened):
    source = "class Version:\n    pass\n\n\ndef helper(x: Version) -> Version:\n    return x\n"
    project = opened(m=source + TARGET.format(uses="helper(x)"))
    assert ran(project, 7) == 7
    assert "class" not in prompt(project)[0]


HINTED = '''

def target(x: {hint}, y: "{quoted}" = None, z: Literal["a"] = "a") -> Optional[{hint}]:
    """Uses things."""
    y = x
    # a comment
    return y
'''
TYPES = """from __future__ import annotations
from typing import TYPE_CHECKING, Annotated, Literal, Optional, TypeVar, Union
if TYPE_CHECKING:
    from collections.abc import Sequence
T = TypeVar("T", bound="Sequence")
Path = Union[str, bytes]
"""


@pytest.mark.parametrize("name", ["T", "Path", "Sequence[int]", 'Annotated[int, "a text"]'])
def test_the_program_has_what_the_signature_names(opened, name):
    source = TYPES + HINTED.format(hint=name, quoted=name.replace('"', "'"))
    namespace: dict[str, object] = {}
    exec("".join(prompt(opened(m=source))), namespace)
    assert {"Literal", "Optional", name.partition("[")[0]} <= set(namespace)


@pytest.mark.parametrize(
    ("hint", "quoted", "reason"),
    [
        ("Version", "int", "needs a class of the project, whose objects the sandbox does not pass"),
        ("int", "Version", "needs a class of the project, whose objects the sandbox does not pass"),
        ("int", "Optional[numpy.ndarray]", "needs an installed package"),
    ],
)
def test_a_function_whose_signature_names_what_the_program_cannot_have_is_left_out(opened, hint, quoted, reason):
    source = TYPES + "import numpy\nclass Version:\n    pass\n" + HINTED.format(hint=hint, quoted=quoted)
    with pytest.raises(ExcludedError) as raised:
        prompt(opened(m=source))
    assert raised.value.reason == reason


def test_newlines_in_a_constant_stay(opened):
    project = opened(m="TEXT = '''a\n\n\n\n\nb'''\n" + TARGET.format(uses="TEXT"))
    assert ran(project, 0) == "a\n\n\n\n\nb"


LEFT_OUT = {
    "needs an installed package": {"m": "import numpy\n" + TARGET.format(uses="numpy.sum(x)")},
    "needs a class of the project, whose objects the sandbox does not pass": {
        "m": "class A:\n    pass\n" + TARGET.format(uses="A()")
    },
    "needs two different objects of one name from two modules": {
        "low": "N = 1\ndef base():\n    return N\n",
        "m": "from low import base\nN = 2\n" + TARGET.format(uses="base() + N"),
    },
    "uses a module of the project as an object": {
        "low": "N = 1\n", "m": "import low\n" + TARGET.format(uses="low.N"),
    },
    "imports from the project inside a statement or function": {
        "low": "N = 1\n", "m": TARGET.format(uses="x\n    from low import N"),
    },
    "needs a name that its module does not define": {"m": TARGET.format(uses="nowhere(x)")},
    "needs a name of a star import": {"m": "from os.path import *\n" + TARGET.format(uses="join(x)")},
    "needs helpers and constants of more than 16000 characters": {
        "m": f"N = {'x' * 20000!r}\n" + TARGET.format(uses="N")
    },
}  # fmt: skip


@pytest.mark.parametrize("reason", LEFT_OUT)
def test_what_cannot_be_taken_out_of_its_project_has_its_reason(opened, reason):
    with pytest.raises(ExcludedError) as raised:
        prompt(opened(**LEFT_OUT[reason]))
    assert raised.value.reason == reason
