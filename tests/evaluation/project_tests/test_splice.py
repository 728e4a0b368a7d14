"""An answer in its module: what is replaced, what comes along, what stays."""

from __future__ import annotations

import pytest

from evaluation.project_tests.splice import iterate_functions, splice

MODULE = '''"""Doc."""
import os

class Box:
    limit = 3

    @property
    def size(self):
        """How many."""
        return len(self.items)

    @size.setter
    def size(self, n):
        self.items = self.items[:n]

if os.name == "posix":
    def where():
        return "here"
else:
    def where():
        return "there"
'''


def line_of(qualified: str, number: int = 0) -> int:
    return [node.lineno for name, node in iterate_functions(MODULE) if name == qualified][number]


def spliced(qualified: str, program: str, number: int = 0) -> str:
    found = splice(MODULE, qualified, line_of(qualified, number), program)
    assert found is not None
    compile(found.source, "m", "exec")
    return found.source


def test_only_the_function_at_the_line_is_replaced() -> None:
    source = spliced(
        "Box.size", "class Box:\n    @size.setter\n    def size(self, n):\n        del self.items[n:]\n", 1
    )

    assert source == MODULE.replace("self.items = self.items[:n]", "del self.items[n:]")


def test_decorators_of_the_file_stay_where_the_answer_has_none() -> None:
    source = spliced("Box.size", "def size(self):\n    return 1\n")

    assert '    @property\n    def size(self):\n        """How many."""\n        return 1\n' in source


def test_what_the_file_has_is_left_out_and_the_rest_comes_along() -> None:
    program = "import os\nimport re\nHELP = {}\nclass Box:\n    limit = 9\n    def size(self):\n        return HELP\n"

    source = spliced("Box.size", program)

    assert source.count("import os") == 1
    assert "limit = 9" not in source
    assert source.index("import re") < source.index("HELP = {}") < source.index("class Box")


def test_a_function_under_a_condition_keeps_its_place() -> None:
    source = spliced("where", "def where():\n    return 'x'\n", 1)

    assert source.endswith("else:\n    def where():\n        return 'x'\n")


def test_statements_that_bind_no_name_run_last_and_those_of_the_file_or_a_script_do_not() -> None:
    program = "TABLE = {}\nTABLE[1] = where()\nSIZE = len(TABLE)\nimport re\ndef where():\n    return 1\n"
    source = spliced("where", program + "if __name__ == '__main__':\n    where(2)\n")
    namespace: dict[str, object] = {}
    exec(compile(source, "m", "exec"), namespace)

    assert source.endswith('        return "there"\nTABLE[1] = where()\nSIZE = len(TABLE)\n')
    assert source.index("import re") < source.index("def where")
    assert (namespace["TABLE"], namespace["SIZE"]) == ({1: 1}, 1)
    assert "__main__" not in source
    assert spliced("where", "start(1)\ndef where():\n    return 1\n").endswith("start(1)\n")
    own = splice("start(1)\ndef f(): pass\n", "f", 2, "start(1)\ndef f():\n    return 1\n")
    assert own is not None
    assert own.source.count("start(1)") == 1


def test_a_program_without_the_function_is_none_and_a_file_without_it_an_error() -> None:
    assert splice(MODULE, "Box.size", line_of("Box.size"), "def other(): pass\n") is None
    with pytest.raises(ValueError, match="no function"):
        splice(MODULE, "Box.size", 1, "def size(self): pass\n")


@pytest.mark.parametrize("docstring", ["", '    """Other."""\n'])
def test_the_docstring_of_the_file_stays(docstring: str) -> None:
    source = spliced("Box.size", f"def size(self):\n{docstring}    return 1\n")

    assert source.count("How many.") == 1
    assert "Other." not in source
    assert "return 1" in source


def test_a_function_without_docstring_gets_none() -> None:
    assert "Other." not in spliced("where", 'def where():\n    """Other."""\n')


LAZY = """from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from collections import OrderedDict
    from nowhere import Thing


def f(x: Thing) -> Thing:
    return x
"""


@pytest.mark.parametrize(
    "program",
    [
        "def f(x: Thing) -> Thing:\n    return x\n",
        "from nowhere import Thing\ndef f(x: Thing) -> Thing:\n    return x\n",
        "if TYPE_CHECKING:\n    from nowhere import Thing\ndef f(x: Thing) -> Thing:\n    return x\n",
        "from nowhere import Thing\ndef own(x: Thing):\n    return x\ndef f(x: Thing):\n    return own(x)\n",
        "from collections import OrderedDict\ndef f(x):\n    return OrderedDict(a=x)['a']\n",
    ],
)
def test_names_that_the_module_leaves_to_type_checkers_may_be_imported_and_used(program: str) -> None:
    found = splice(LAZY, "f", 8, program)
    assert found is not None
    namespace: dict[str, object] = {}
    exec(compile(found.source, "m", "exec"), namespace)
    assert namespace["f"](3) == 3  # type: ignore[operator]
    assert found.source.startswith("from __future__ import annotations\n")


def test_a_statement_that_the_module_has_under_a_condition_does_not_run_again() -> None:
    module = "def f():\n    return 1\n\ntry:\n    import nothing\n    f.late = nothing\nexcept ImportError:\n    pass\n"
    found = splice(module, "f", 1, "f.late = nothing\ndef f():\n    return 2\n")
    assert found is not None
    assert found.source.count("f.late") == 1
    exec(compile(found.source, "m", "exec"), {})
