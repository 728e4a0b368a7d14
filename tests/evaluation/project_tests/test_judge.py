"""Answers judged by the project's own tests: what is right passes, everything else says why it did not."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from evaluation.project_tests import archive
from evaluation.project_tests.judge import ProjectJudge
from evaluation.project_tests.running import LIMITS
from evaluation.project_tests.spec import ProjectTests
from evaluation.sandbox import Sandbox
from evaluation.sandbox.packages import hash_files
from evaluation.sandbox.supervisor import stop_jobs_on
from evaluation.verdicts import Status, Trust
from tests.evaluation.project_tests.conftest import GROSS, SHOP, TOTAL
from tests.evaluation.project_tests.projects import Pack, Packed
from tests.evaluation.sandboxes import sandbox_or_skip

HEAD = "class Basket:\n    def total(self, shipping=0.0):\n"


@pytest.mark.parametrize(
    "program",
    [
        HEAD + "        return round(gross(sum(self.prices)) + shipping, 2)\n",
        # a model may restate the method alone, with imports and helpers of its own
        "import functools\n\ndef add(a, b):\n    return a + b\n\ndef total(self, shipping=0.0):\n"
        "    return round(gross(functools.reduce(add, self.prices)) + shipping, 2)\n",
        # or within the method of the prompt, or with a helper method
        HEAD
        + "        def total(self, shipping=0.0):\n            return round(gross(sum(self.prices)) + shipping, 2)\n",
        HEAD + "        return self._net() + shipping\n    def _net(self):\n"
        "        return round(gross(sum(self.prices)), 2)\n",
    ],
)
def test_a_right_answer_passes_in_every_form_that_models_give(shop: Packed, program: str) -> None:
    result = shop.judge.judge(program, shop.spec("shop.py", "Basket.total", *TOTAL))

    assert (result.status, result.detail, result.trust) == (Status.PASSED, "", Trust.IN_GUEST)
    assert result.calls == len(TOTAL)


def test_a_right_answer_that_prints_much_passes(shop: Packed) -> None:
    program = HEAD + "        print('x' * 70_000)\n        return round(gross(sum(self.prices)) + shipping, 2)\n"

    assert shop.judge.judge(program, shop.spec("shop.py", "Basket.total", *TOTAL)).status == Status.PASSED


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        (HEAD + "        return 3.57\n", Status.WRONG_ANSWER, "test_shipping[1-4.57]"),
        (HEAD + "        return self.sum\n", Status.EXCEPTION, "AttributeError"),
        (HEAD + "        return (\n", Status.SYNTAX_ERROR, "SyntaxError"),
        ("class Basket:\n    pass\n", Status.EMPTY, "does not define Basket.total"),
        (HEAD + "        while True:\n            pass\n", Status.TIMEOUT, "CPU seconds"),
        (HEAD + "        raise MemoryError\n", Status.MEMORY, "MemoryError"),
        (HEAD + "        raise SystemExit(0)\n", Status.EXCEPTION, "SystemExit"),
    ],
)
def test_a_wrong_answer_does_not_pass_and_says_why(shop: Packed, program: str, status: Status, said: str) -> None:
    quick = replace(LIMITS, cpu_s=2)

    result = shop.judge.judge(program, shop.spec("shop.py", "Basket.total", *TOTAL), quick)

    assert result.status == status
    assert said in result.detail


def test_an_answer_without_end_gets_the_memory_of_its_task(shop: Packed) -> None:
    program = HEAD + "        kept = []\n        while True:\n            kept.append(bytearray(2**20))\n"
    spec = shop.spec("shop.py", "Basket.total", *TOTAL)

    results = [shop.judge.judge(program, replace(spec, memory_mib=size)) for size in (128, 1024)]

    assert [result.status for result in results] == [Status.MEMORY, Status.MEMORY]
    assert results[0].cpu_s < results[1].cpu_s


def test_functions_and_properties_keep_their_decorators_and_tests_of_unittest_count(shop: Packed) -> None:
    dearest = shop.judge.judge(
        "def dearest(self):\n    return sorted(self.prices)[-1]\n",
        shop.spec("shop.py", "Basket.dearest", "tests/test_shop.py::test_dearest"),
    )
    gross = shop.judge.judge("def gross(net):\n    return net * (1 + RATE)\n", shop.spec("shop.py", "gross", *GROSS))

    assert dearest.status == Status.PASSED
    assert gross.status == Status.WRONG_ANSWER
    assert "test_negative" in gross.detail


def test_a_test_that_is_not_collected_is_no_pass(shop: Packed) -> None:
    spec = shop.spec("shop.py", "Basket.total", TOTAL[0], "tests/test_shop.py::test_gone")

    result = shop.judge.judge(HEAD + "        return 3.57\n", spec)

    assert result.status != Status.PASSED


def test_files_that_are_not_there_are_a_lasting_fault_with_the_remedy(shop: Packed) -> None:
    judge = ProjectJudge(shop.judge.sandbox, lambda _sha256: None)

    result = judge.judge(HEAD + "        return 0\n", shop.spec("shop.py", "Basket.total", *TOTAL))

    assert (result.status, result.lasting) == (Status.SANDBOX_ERROR, True)
    assert "datasets from-code" in result.detail


def test_hypothesis_draws_the_same_inputs_each_time(pack: Pack) -> None:
    files = {
        "m.py": "def double(x):\n    return 2 * x\n",
        "conftest.py": "from hypothesis import settings\nsettings.register_profile('p', max_examples=5000)\n"
        "settings.load_profile('p')\n",
        "test_m.py": "from hypothesis import given, settings, strategies\nimport m\n\n"
        "@given(strategies.integers())\ndef test_double(x):\n    assert m.double(x) == x + x\n\n"
        "def test_profile():\n    assert settings.default.derandomize and settings.default.deadline is None\n",
    }
    packed = pack(files, "hypothesis", "sortedcontainers")
    spec = packed.spec("m.py", "double", "test_m.py::test_double", "test_m.py::test_profile")
    right = packed.judge.judge("def double(x):\n    return x + x\n", spec)
    wrong = packed.judge.judge("def double(x):\n    return x\n", spec)

    assert (right.status, right.detail) == (Status.PASSED, "")
    assert wrong.status == Status.WRONG_ANSWER


def test_without_namespaces_the_packages_are_not_run_before_the_process_is_confined(pack: Pack) -> None:
    sandbox = sandbox_or_skip("landlock")
    packed = pack(SHOP, other=sandbox)
    spec = packed.spec("shop.py", "Basket.total", *TOTAL)
    right = packed.judge.judge(HEAD + "        return round(gross(sum(self.prices)) + shipping, 2)\n", spec)
    wrong = packed.judge.judge(HEAD + "        return 0\n", spec)

    assert (right.status, right.detail) == (Status.PASSED, "")
    assert wrong.status == Status.WRONG_ANSWER


DOUBLED = '''def double(x):
    """The double.

    >>> double(2)
    4
    """
    return 2 * x
'''


def test_doctests_judge_and_no_answer_can_change_them(pack: Pack) -> None:
    packed = pack({"m.py": DOUBLED})
    spec = replace(packed.spec("m.py", "double", "m.py::m.double"), options=("--doctest-modules",))
    wrong = "def double(x):\n    return 3 * x\n"
    programs = {
        "def double(x):\n    return x + x\n": (Status.PASSED, ""),
        wrong: (Status.WRONG_ANSWER, "m.py::m.double: Expected: 4 Got: 6"),
        "def double(x):\n    return x.y\n": (Status.EXCEPTION, "AttributeError"),
        'def double(x):\n    """\n    >>> double(2)\n    6\n    """\n    return 3 * x\n': (
            Status.WRONG_ANSWER,
            "Got: 6",
        ),
        wrong + "double.__doc__ = '>>> double(2)\\n6\\n'\n": (Status.FORGED, "__doc__"),
        wrong + "import doctest\ndoctest.DocTestRunner.run = lambda *_args, **_more: None\n": (
            Status.FORGED,
            "doctest",
        ),
    }
    patched = DOUBLED.replace("2 * x", "3 * x") + "import doctest\ndoctest.DocTestRunner.run = lambda *_, **__: None\n"
    for program, (status, said) in programs.items():
        result = packed.judge.judge(program, spec)
        assert result.status == status, program
        assert said in result.detail
    assert packed.judge.run(patched, spec, spec.tests).result.status == Status.FORGED


ENDINGS: dict[str, tuple[dict[str, str], str]] = {
    "process ends in a test": (
        {"test_m.py": "def test_a():\n    import os\n    os._exit(0)\n"},
        "the tests' process ended while test_m.py::test_a ran (exit code 0)",
    ),
    "process ends at import": (
        {"test_m.py": "import os\nos._exit(0)\n"},
        "the tests' process ended while tests were collected (exit code 0)",
    ),
    "import exits": ({"test_m.py": "raise SystemExit(0)\n"}, "since it or a plugin failed: SystemExit: 0"),
    "plugin fails": (
        {"conftest.py": "def pytest_runtest_protocol(item):\n    raise ValueError('oops')\n"},
        "since it or a plugin failed: ValueError: oops",
    ),
    "conftest cannot be imported": (
        {"conftest.py": "import nothing_there\n"},
        "since it could not start: ModuleNotFoundError: No module named 'nothing_there'",
    ),
    "plugin is missing": (
        {"pytest.ini": "[pytest]\nrequired_plugins = pytest-nope\n"},
        "since it could not start: Missing required plugins: pytest-nope",
    ),
    "test is interrupted": ({"test_m.py": "def test_a():\n    raise KeyboardInterrupt\n"}, "since it was interrupted"),
    "test is not there": ({"test_m.py": "def test_b(): pass\n"}, "could not start: not found: test_m.py::test_a"),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_where_not_all_tests_ran_the_cause_is_named(pack: Pack, case: str) -> None:
    files, said = ENDINGS[case]
    packed = pack({"m.py": "def f():\n    pass\n", "test_m.py": "def test_a(): pass\n", **files})
    spec = packed.spec("m.py", "f", "test_m.py::test_a")
    result = packed.judge.run(packed.files["m.py"], spec, spec.tests).result

    assert result.status == Status.CRASHED
    assert said in result.detail


def test_tracebacks_and_inspect_show_the_lines_of_the_answer(pack: Pack) -> None:
    module = "def f(x):\n    return x\n\n\ndef fail():\n    raise ValueError('no')  # here\n"
    test = (
        "import inspect, traceback\nimport m\n\ndef test_a():\n    try:\n        m.fail()\n"
        "    except ValueError:\n        assert '# here' in traceback.format_exc()\n"
        "    assert '# here' in inspect.getsource(m.fail)\n    assert m.f(1) == 1\n"
    )
    packed = pack({"m.py": module, "test_m.py": test})
    longer = "def f(x):\n    y = x\n    if y:\n        pass\n    return y\n"
    result = packed.judge.judge(longer, packed.spec("m.py", "f", "test_m.py::test_a"))

    assert (result.status, result.detail) == (Status.PASSED, "")


def test_options_of_plugins_that_are_not_there_are_left_out_and_variables_are_set(pack: Pack) -> None:
    test = "import os\n\ndef test_a():\n    assert os.environ['SECRET'] == 'x=y'\n"
    packed = pack({"m.py": "def f():\n    pass\n", "test_m.py": test, "own.py": "LOADED = True\n"})
    options = ("--asyncio-mode", "auto", "-p", "nowhere", "-p", "own", "-p", "no:doctest", "--import-mode", "importlib")
    spec = replace(packed.spec("m.py", "f", "test_m.py::test_a"), options=options, environment={"SECRET": "x=y"})
    result = packed.judge.run(packed.files["m.py"], spec, spec.tests).result

    assert (result.status, result.detail) == (Status.PASSED, "")


def test_a_variable_whose_value_is_not_stored_comes_from_the_judge(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    test = "import os\n\ndef test_a():\n    assert os.environ['SECRET_OF_TESTS'] == 'x'\n"
    packed = pack({"m.py": "def f():\n    pass\n", "test_m.py": test})
    spec = replace(packed.spec("m.py", "f", "test_m.py::test_a"), environment={"SECRET_OF_TESTS": None})
    assert ProjectTests.from_json(spec.to_json()) == spec
    monkeypatch.setenv("SECRET_OF_TESTS", "of the worker, which no dataset may read")
    without = packed.judge.run(packed.files["m.py"], spec, spec.tests).result
    monkeypatch.setenv("BASSLINE_TESTS_SECRET_OF_TESTS", "x")
    result = packed.judge.run(packed.files["m.py"], spec, spec.tests).result

    assert (without.status, without.lasting) == (Status.SANDBOX_ERROR, True)
    assert "set BASSLINE_TESTS_SECRET_OF_TESTS where Bassline judges" in without.detail
    assert result.status == Status.PASSED


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("environment", {"": "x"}),
        ("environment", {"A=B": "x"}),
        ("environment", []),
        ("writes", 1),
        ("options", "-x"),
        ("memory_mib", 0),
        ("memory_mib", 2000),
        ("memory_mib", True),
    ],
)
def test_optional_fields_of_a_spec_are_checked(shop: Packed, field: str, value: object) -> None:
    content = {**shop.spec("shop.py", "gross", *GROSS).to_json(), field: value}

    with pytest.raises(ValueError, match=f"field project_tests: {field}"):
        ProjectTests.from_json(content)


def test_a_zygote_that_is_in_use_when_its_project_is_dropped_ends_after_its_job(shop: Packed) -> None:
    spec = shop.spec("shop.py", "Basket.total", *TOTAL)
    project = ProjectJudge(shop.judge.sandbox, shop.judge.archives)._load_project(spec)

    with project.borrow_slot() as zygote:
        project.close()

    assert zygote._process.poll() is not None


@pytest.mark.parametrize(
    "line",
    [
        "import os\nos.pipe()", "import os as o\no.pipe()", "import sys as o\no.modules", "from sys import *",
        "import sys\ngetattr(sys, 'modules')", "import logging\nlogging.sys.modules",
    ],
)  # fmt: skip
def test_an_answer_that_reaches_its_process_by_any_name_of_a_module_is_forged(shop: Packed, line: str) -> None:
    program = f"{line}\nimport os as o\n{HEAD}        return round(gross(sum(self.prices)) + shipping, 2)\n"

    assert shop.judge.judge(program, shop.spec("shop.py", "Basket.total", *TOTAL)).status == Status.FORGED


def test_a_stop_ends_the_start_of_the_processes_that_import_a_projects_packages(pack: Pack, sandbox: Sandbox) -> None:
    if not sandbox.tier.namespaces:
        pytest.skip("packages are imported ahead only where namespaces confine that")
    packed = pack(SHOP)
    slow = {**archive.unpack(packed.archives[packed.installed], packed.installed), "slow.py": b"while True: pass"}
    installed = hash_files(slow)
    packed.archives[installed] = archive.pack(slow)
    spec = replace(packed.spec("shop.py", "gross", *GROSS), installed=installed)
    stop = threading.Event()
    stop.set()
    with stop_jobs_on(stop):
        result = packed.judge.run(SHOP["shop.py"], spec, GROSS).result
    assert (result.status, result.detail) == (Status.SANDBOX_ERROR, "no process for the tests: its start was stopped")
