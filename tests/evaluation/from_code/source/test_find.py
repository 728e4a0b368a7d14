"""Which functions can become tasks, and the reason for each that cannot."""

from __future__ import annotations

import pytest

from evaluation.from_code.reasons import ProjectError
from evaluation.from_code.source.find import find_functions
from evaluation.from_code.source.project import open_project

BODY = "\n    x = 1\n    y = 2\n    return x + y\n"
REASONS = {
    f'def f():\n    """."""{BODY}': "",
    f"@wrapped\ndef f():{BODY}": "",
    f"async def f():{BODY}": "",
    f"class A:\n    def f(self):{BODY.replace('    ', '        ')}": "",
    f"if True:\n    def f():{BODY.replace('    ', '        ')}": "",
    "def f():\n    return 1\n": "",
    f"class A:\n    def __hash__(self):{BODY.replace('    ', '        ')}": (
        "is a hash, which is right with any number that equal objects share"
    ),
    'def f():\n    """."""\n' + "    x = 1\n" * 90: "has more than 80 lines without its docstring",
    f'@typing.overload\ndef f():\n    """."""{BODY}': "is a declaration of an overload",
    f"@abc.abstractmethod\ndef f():{BODY}": "has no body of its own",
    'def f():\n    """."""\n    raise NotImplementedError("later")\n': "has no body of its own",
    f'def f():\n    """."""; x = 1{BODY}': "has its body on the line of its signature or docstring",
}


@pytest.mark.parametrize("source", REASONS)
def test_each_function_has_its_reason(opened, source):
    (function,) = find_functions(opened(m=source))
    assert function.reason == REASONS[source]


KINDS = {
    "@property\n    def f(self):": "property",
    "@f.setter\n    def f(self, value):": "property",
    "@functools.cached_property\n    def f(self):": "property",
    "@classmethod\n    def f(cls):": "classmethod",
    "@staticmethod\n    def f():": "staticmethod",
    "def __init__(self):": "constructor",
    "async def f(self):": "method",
}


@pytest.mark.parametrize("head", KINDS)
def test_each_method_has_its_kind_and_the_names_of_its_classes(opened, head):
    source = f"class A:\n  class B:\n    {head}{BODY.replace('    ', '        ')}"
    (function,) = find_functions(opened(m=source))
    assert (function.kind, function.qualified.rpartition(".")[0], function.indent) == (KINDS[head], "A.B", "    ")


@pytest.mark.parametrize(
    ("decorators", "has_unknown_decorator"),
    [
        ("", False),
        ("@functools.lru_cache(maxsize=9)\n", False),
        ("@contextlib.contextmanager\n", False),
        ("@validator\n", True),
        ("@functools.cache\n@app.route('/x')\n", True),
    ],
)
def test_a_decorator_that_may_change_results_is_known(opened, decorators, has_unknown_decorator):
    (function,) = find_functions(opened(m=f"{decorators}def f():{BODY}"))
    assert function.has_unknown_decorator == has_unknown_decorator


def test_a_form_feed_ends_no_line(opened):
    (function,) = find_functions(opened(m=f"x = 1\n\x0c\ndef f():{BODY}"))
    assert function.module.lines[function.node.lineno - 1] == "def f():\n"


def test_the_body_to_be_written_starts_after_signature_and_docstring(opened):
    source = 'def f(\n    a: "x:y",  # :\n    b=(1, 2),\n) -> int:\n    # first\n    c = a\n    return c\n'
    (function,) = find_functions(opened(m=source))
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


def test_of_two_files_with_one_module_name_the_second_is_named(opened):
    project = opened({"a/util.py": "x = 1\n", "b/util.py": "y = 1\n"})
    assert [module.path for module in project.modules.values()] == ["a/util.py"]
    assert project.unread == {"b/util.py": "a/util.py has the same module name, util"}


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


@pytest.mark.parametrize("target", ["./no/folder", __file__])
def test_what_is_no_folder_is_one_sentence_with_the_remedy(target):
    with pytest.raises(ProjectError, match=r"there is no folder .*: give the folder of a project"):
        open_project(target)


def test_a_folder_without_source_is_refused(tmp_path):
    with pytest.raises(ProjectError, match="holds no Python source"):
        open_project(str(tmp_path))
