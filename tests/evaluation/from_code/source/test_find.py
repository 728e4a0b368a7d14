"""Which functions can become tasks, and the reason for each that cannot."""

from __future__ import annotations

import sys

import pytest

from evaluation.from_code.reasons import ProjectError
from evaluation.from_code.source.find import find
from evaluation.from_code.source.project import open_project

BODY = "\n    x = 1\n    y = 2\n    return x + y\n"
REASONS = {
    f'def f():\n    """."""{BODY}': "",
    f"def f(a: int):{BODY}": "",
    f"@functools.lru_cache(None)\ndef f(a: int):{BODY}": "",
    f"def f():{BODY}": "has neither a docstring nor type hints",
    'def f():\n    """."""\n    return 1\n': "has fewer than 3 lines without its docstring",
    'def f():\n    """."""\n' + "    x = 1\n" * 80: "has more than 60 lines without its docstring",
    f'async def f():\n    """."""{BODY}': "is asynchronous",
    f'class A:\n    def f(self):\n        """."""{BODY.replace("    ", "        ")}': "is a method",
    f'if True:\n    def f():\n        """."""{BODY.replace("    ", "        ")}': "is defined under a condition",
    f'@wrapped\ndef f():\n    """."""{BODY}': "has a decorator, which may change its arguments or result",
    f'@typing.overload\ndef f():\n    """."""{BODY}': "is a declaration of an overload",
    f'def f():\n    """."""; x = 1{BODY}': "has its body on the line of its signature or docstring",
    'def f():\n    """."""\n    x = 1\n    return locals()\n': (
        "reads its own names or executes text (locals, vars, eval and the like)"
    ),
}


@pytest.mark.parametrize("source", REASONS, ids=list(REASONS.values()))
def test_each_function_has_its_reason(opened, source):
    (function,) = find(opened(m=source))
    assert function.reason == REASONS[source]


def test_two_functions_of_one_name_are_both_left_out(opened):
    source = f'def f():\n    """."""{BODY}'
    assert [function.reason for function in find(opened(m=source * 2))] == ["is defined more than once"] * 2


def test_the_body_to_be_written_starts_after_signature_and_docstring(opened):
    source = 'def f(\n    a: "x:y",  # :\n    b=(1, 2),\n) -> int:\n    # first\n    c = a\n    return c\n'
    (function,) = find(opened(m=source))
    assert function.solution_line == 5


def test_tests_and_environments_are_no_source_and_a_file_that_cannot_be_read_is_named(opened):
    nothing = "x = 1\n"
    project = opened(
        {"src/pkg/__init__.py": "", "src/pkg/m.py": nothing, "tests/test_m.py": nothing, "env/m.py": nothing,
             "env/pyvenv.cfg": ""},
        test_m=nothing, conftest="", bad="def f(:\n", newer="lazy import x\n",
    )  # fmt: skip
    assert {module.path: name for name, module in project.modules.items()} == {
        "src/pkg/__init__.py": "pkg", "src/pkg/m.py": "pkg.m"
    }  # fmt: skip
    assert project.skipped == {
        "env": "is an environment", "tests": "holds tests", "conftest.py": "holds tests", "test_m.py": "holds tests"
    }  # fmt: skip
    assert sorted(project.unread) == ["bad.py", "newer.py"]
    assert project.unread["bad.py"].startswith("Python cannot parse it: ")


@pytest.mark.parametrize("name", ["tools", "scripts", "testing", "build", "env", "vendor", "examples", "tasks"])
def test_a_package_of_any_name_is_source(opened, name):
    project = opened({
        f"{name}/__init__.py": "", f"{name}/m.py": "x = 1\n", "pkg/__init__.py": "", f"pkg/{name}/__init__.py": "",
        f"pkg/{name}/tasks.py": "x = 1\n",
    })  # fmt: skip
    assert {f"{name}.m", f"pkg.{name}.tasks"} <= set(project.modules)
    assert project.skipped == {}


SKIPPED = {
    "tools/m.py": ("tools", "is not a package"),
    "build/lib/pkg/m.py": ("build", "is what a build left"),
    ".hidden/m.py": (".hidden", "is hidden or holds metadata"),
    "lib/site-packages/m.py": ("lib/site-packages", "holds installed packages"),
    "setup.py": ("setup.py", "belongs to a tool"),
    "pkg/__main__.py": ("pkg/__main__.py", "is run, not imported"),
}


@pytest.mark.parametrize("path", SKIPPED)
def test_what_is_skipped_is_named_with_a_reason(opened, path):
    project = opened({path: "x = 1\n"}, m="x = 1\n")
    assert list(project.modules) == ["m"]
    assert project.skipped == dict([SKIPPED[path]])


def test_code_of_other_projects_is_told_by_its_licences(opened):
    files = {"pkg/__init__.py": "", "pkg/vendor/__init__.py": "", "pkg/vendor/other/m.py": "x = 1\n"}
    project = opened({**files, "pkg/vendor/other/LICENSE.txt": ""})
    assert project.skipped == {"pkg/vendor": "holds other projects' code with its licences"}


def test_an_installed_module_and_an_installed_package_are_found_by_name():
    assert list(open_project("textwrap", sys.executable).modules) == ["textwrap"]
    package = open_project("email.mime", sys.executable)
    assert "email.mime.text" in package.modules
    assert "email" not in package.modules


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("no_such_package_x", "has no package of that name"), ("./no/folder", "there is no folder"),
        ("math", "choose a package written in Python"), (__file__, "is a file"),
    ],
)  # fmt: skip
def test_what_is_no_project_is_one_sentence_with_the_remedy(target, sentence):
    with pytest.raises(ProjectError, match=sentence):
        open_project(target, sys.executable)


def test_a_folder_without_source_is_refused(tmp_path):
    with pytest.raises(ProjectError, match="holds no Python source"):
        open_project(str(tmp_path), sys.executable)
