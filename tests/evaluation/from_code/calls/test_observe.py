"""Observing a function in the sandbox: what it did, and that it can do no more than answer."""

from __future__ import annotations

import ast
import json
from dataclasses import replace

import pytest

from evaluation.from_code.calls.observe import (
    MAX_FAILED,
    CallOutcome,
    PlacedFunction,
    UnobservableError,
    Variant,
    observe,
    run_variants_on_cases,
)
from evaluation.from_code.placing.module_runner import MAX_ITEMS
from evaluation.from_code.placing.spec import FunctionPlacement
from evaluation.from_code.placing.steps import MAX_STEPS
from evaluation.from_code.reasons import SandboxFaultError
from evaluation.from_code.recording import values
from evaluation.sandbox import Limits, SandboxResult


def program(source, name="f"):
    """The function of that name in a module of the rest of the source."""
    tree = ast.parse(source)
    node = next(n for n in tree.body if getattr(n, "name", "") == name)
    lines = source.splitlines(keepends=True)
    spec = FunctionPlacement("m", False, name, "".join(lines[: node.lineno - 1]), "".join(lines[node.end_lineno :]))
    return PlacedFunction(spec, ast.unparse(node))


def outcomes_of(*arguments):
    return observe(*arguments).outcomes


def calls(*arguments):
    return [values.serialize(((argument,), {})) for argument in arguments]


def test_results_exceptions_changed_arguments_and_items_of_iterators_are_observed(sandbox):
    source = (
        "def f(xs):\n    if not xs:\n        raise ValueError('empty')\n    xs.append(1)\n"
        "    return map(str, xs) if xs[0] else xs\n"
    )
    empty, zero, two = outcomes_of(sandbox, program(source), calls([], [0], [2]))
    assert empty.raised[0] == "ValueError"
    assert values.read(zero.returned) == [0, 1]
    assert values.read(zero.after) == (([0, 1],), {})
    assert (values.read(two.returned), two.iterates) == (["2", "1"], True)


@pytest.mark.parametrize(
    ("body", "hidden_inputs"),
    [
        ("random.choice(xs)", ("chance",)),
        ("random.Random(5).choice(xs)", ()),
        ("uuid.uuid4().hex and xs", ("chance",)),
        ("int(time.time()) and xs", ("clock",)),
        ("dt.datetime.now() and xs", ("clock",)),
        ("time.strftime('%Y', time.gmtime(0))", ()),
        ("dt.date(2020, 1, 2).isoformat()", ()),
        ("xs[0]", ()),
    ],
)
def test_calls_that_draw_numbers_or_read_the_clock_say_so(sandbox, body, hidden_inputs):
    source = f"import datetime as dt\nimport random\nimport time\nimport uuid\ndef f(xs):\n    return {body}\n"
    assert outcomes_of(sandbox, program(source), calls([7]))[0].hidden_inputs == hidden_inputs


@pytest.mark.parametrize("decorators", ["", "import functools\n@functools.cache\n"])
def test_calls_on_different_branches_have_different_arcs(sandbox, decorators):
    source = f"{decorators}def f(x):\n    if x > 0:\n        y = 1\n    else:\n        y = 2\n    return y\n"
    one, two, other = outcomes_of(sandbox, program(source), calls(1, 2, -1))
    assert one.arcs == two.arcs != other.arcs
    above = decorators.count("@")
    assert (2 + above, 3 + above) in one.arcs
    assert (2 + above, 5 + above) in other.arcs


@pytest.mark.parametrize("name", ["my_tool", "my-tool", "My.Tool", "python-my-tool"])
def test_a_package_gets_its_own_version_when_it_is_imported_and_no_others(sandbox, name):
    init = f"from importlib.metadata import PackageNotFoundError, version\nOWN = version({name!r})\n"
    init += "try:\n    OTHER = version('other')\nexcept PackageNotFoundError:\n    OTHER = None\n"
    before = "from my_tool import OTHER, OWN\n"
    spec = FunctionPlacement("my_tool.base", False, "f", before, "", modules={"my_tool": (True, init)})
    original = PlacedFunction(spec, "def f(x):\n    return [OWN, OTHER][x]\n")
    assert [outcome.returned for outcome in outcomes_of(sandbox, original, calls(0, 1))] == ['"0.0.0"', "null"]


def test_names_of_the_program_do_not_change_the_observer(sandbox):
    names = "list = set = json = values = exec = None\n"
    source = f"def sorted(x):\n    return 'mine'\n{names}def first(x):\n    return sorted(x)\n"
    (outcome,) = outcomes_of(sandbox, program(source, "first"), calls([2, 1]))
    assert outcome.returned == '"mine"'


def test_results_that_are_not_plain_and_iterators_without_end_are_refused(sandbox):
    source = f"import itertools\ndef f(x):\n    return [object(), itertools.count(), range({MAX_ITEMS})][x]\n"
    thing, endless, _ = outcomes_of(sandbox, program(source), calls(0, 1, 2))
    assert thing.refused == "a nameless object()"
    assert endless.refused == "too large"


def test_a_call_that_ends_the_process_is_found_among_others(sandbox):
    source = "import os\ndef f(x):\n    if x == 3:\n        os._exit(0)\n    return x\n"
    outcomes = observe(sandbox, program(source), calls(*range(6)), MAX_FAILED).outcomes
    assert [outcome.returned for outcome in outcomes] == ["0", "1", "2", None, "4", "5"]
    assert outcomes[3].failed.startswith("crashed")


def test_a_program_that_does_not_load_or_prints_megabytes_does_not_answer(sandbox):
    for source, status in [
        ("1 / 0\ndef f(x): pass\n", "exception"),
        ("def f(x):\n    print('x' * 10**7)\n", "output_limit"),
    ]:
        with pytest.raises(UnobservableError, match=f"^{status}: "):
            observe(sandbox, program(source), calls(1))


def test_files_and_the_network_are_out_of_reach(sandbox, tmp_path):
    target = tmp_path / "written"
    connect = "socket.create_connection(('127.0.0.1', 80), 1)"
    source = f"import socket\ndef f(x):\n    if x:\n        open({str(target)!r}, 'w')\n    {connect}\n"
    for outcome in outcomes_of(sandbox, program(source), calls(0, 1)):
        assert "OSError" in outcome.raised
    assert not target.exists()


def test_a_call_that_takes_too_many_steps_is_refused_by_their_number(sandbox):
    source = (
        "def f(n):\n    for i in range(n):\n        i += 1\n    return n\n"
        "def helped(n):\n    return [g(i) for i in range(n)]\n"
        "def g(i):\n    return i\n"
    )
    few, many = outcomes_of(sandbox, program(source), calls(10, MAX_STEPS))
    assert (few.returned, few.refused) == ("10", "")
    assert many.refused == "too long"
    (helped,) = outcomes_of(sandbox, program(source, "helped"), calls(2 * MAX_STEPS))
    assert helped.refused == "too long"


def test_a_batch_that_takes_too_long_is_split_and_a_fault_is_repeated(sandbox):
    class Slow:
        """Times out for more than two calls; every job begins with a fault."""

        def __init__(self):
            self.jobs = 0

        def run(self, job, limits):
            self.jobs += 1
            if self.jobs % 2:
                return SandboxResult("sandbox_error", "no process")
            n_calls = job.test.count("tuple")
            return SandboxResult("timeout", "too slow") if n_calls > 2 else sandbox.run(job, limits)

    source = "def f(x):\n    return x\n"
    outcomes = outcomes_of(Slow(), program(source), calls(*range(7)))
    assert [outcome.returned for outcome in outcomes] == list("0123456")


def test_a_fault_that_lasts_is_an_error_and_no_outcome():
    class Broken:
        def run(self, job, limits):
            return SandboxResult("sandbox_error", "no process could be started")

    with pytest.raises(SandboxFaultError, match="no process could be started"):
        observe(Broken(), program("def f(x):\n    return x\n"), calls(1, 2), MAX_FAILED)


def test_variants_are_compared_case_by_case_and_one_that_never_ends_is_stopped_by_its_steps(sandbox):
    original = program("def f(x):\n    return f(x - 1) + 1 if x > 0 else 0\n")
    cases = [(text, {"returned": n}, 10, None) for n, text in enumerate(calls(0, 1, 2))]
    bodies = [
        "return x",
        "return 0",
        "return f(x - 1) + 1 if x >= 0 else 0",
        "while True:\n  x += 1",
        "raise ValueError",
    ]
    variants = [f"def f(x):\n {body}\n" for body in bodies]
    found = run_variants_on_cases(
        sandbox, original, cases, [Variant(source, (0, 1, 2), stop_at_first=True) for source in variants]
    )
    assert found == [[], [1], [0], [0], [0]]
    assert run_variants_on_cases(sandbox, original, cases, [Variant(source, (0, 2)) for source in variants[:2]]) == [
        [],
        [2],
    ]


def test_the_steps_of_a_helper_of_the_module_count_for_the_original_as_for_its_variants(sandbox):
    source = "def helper(n):\n    for i in range(n):\n        i += 1\n    return n\ndef f(n):\n    return helper(n)\n"
    original = program(source, "f")
    (outcome,) = outcomes_of(sandbox, original, calls(9_000))
    cases = [(text, {"returned": 9000}, outcome.steps, None) for text in calls(9_000)]
    same = [Variant("def f(n):\n    return helper(n)\n", (0,), stop_at_first=True)]
    assert run_variants_on_cases(sandbox, original, cases, same) == [[]]


def test_a_variant_that_spoils_the_module_for_others_is_judged_apart(sandbox):
    original = program("TABLE = {1: 2}\ndef f(x):\n    return TABLE[x]\n")
    cases = [(text, {"returned": 2}, 10, None) for text in calls(1)]
    bodies = ["return TABLE.clear()", "return TABLE[1]", "return TABLE[x]"]
    variants = [f"def f(x):\n {body}\n" for body in bodies]
    found = run_variants_on_cases(
        sandbox, original, cases, [Variant(source, (0,), stop_at_first=True) for source in variants]
    )
    assert found == [[0], [], []]


class Counting:
    """The sandbox, which counts its jobs."""

    def __init__(self, sandbox):
        self.sandbox, self.jobs = sandbox, 0

    def run(self, job, limits):
        self.jobs += 1
        return self.sandbox.run(job, limits)


def test_a_variant_that_loops_in_c_code_is_found_by_its_own_cpu_time(sandbox, monkeypatch):
    monkeypatch.setattr(
        "evaluation.from_code.calls.observe._VARIANT_LIMITS", Limits(cpu_s=40, wall_s=120.0, call_cpu_s=1)
    )
    original = program("def f(x):\n    return x + 1\n")
    cases = [(text, {"returned": n + 1}, 10, None) for n, text in enumerate(calls(0, 1))]
    bodies = ["return 1", *["return 1 + x"] * 8, "import collections as c, itertools as i; c.deque(i.count(x), 0)",
              *["return x"] * 8]  # fmt: skip
    counting = Counting(sandbox)

    found = run_variants_on_cases(
        counting, original, cases, [Variant(f"def f(x):\n {body}\n", (0, 1)) for body in bodies]
    )

    assert found == [[1], *[[]] * 8, None, *[[0, 1]] * 8]
    assert counting.jobs <= 4  # all, those before it, it alone, those behind it


def test_variants_of_a_method_share_a_process_whether_they_name_its_class_or_not(sandbox):
    before = "class A:\n    def f(self, x):\n        return x\nclass B(A):\n"
    spec = FunctionPlacement("m", False, "B.f", before, "", "    ")
    original = PlacedFunction(spec, "def f(self, x):\n    return super().f(x) + 1\n")
    call = '{"tuple":[{"tuple":[{"object":["m:B",null,[]]},1]},{"dict":[]}]}'
    bodies = ["return x + 1", "return super().f(x)", "return __class__.__base__.f(self, x) + 1", "return None"]
    counting = Counting(sandbox)

    found = run_variants_on_cases(
        counting, original, [(call, {"returned": 2}, 10, None)],
        [Variant(f"def f(self, x):\n {body}\n", (0,)) for body in bodies],
    )  # fmt: skip

    assert found == [[], [0], [], [0]]
    assert counting.jobs == 1


def test_a_variant_that_takes_memory_without_end_is_noticed_and_one_with_much_is_judged(
    sandbox,
):
    size = 160 * 2**20
    original = program(f"import mmap\ndef f(x):\n    mmap.mmap(-1, {size}).close()\n    return x + 1\n")
    cases = [(text, {"returned": 2}, 10, None) for text in calls(1)]
    endless = "def f(x):\n found = [x]\n while True:\n  found += found\n"
    right, wrong = (f"def f(x):\n mmap.mmap(-1, {size}).close()\n return {result}\n" for result in ("1 + x", "x"))
    variants = [Variant(source, (0,), stop_at_first=True) for source in (right, wrong, endless)]

    assert [run_variants_on_cases(sandbox, original, cases, [each]) for each in variants] == [[[]], [[0]], [[0]]]


VIEWED = """
class Box:
    def __init__(self, size):
        self._size = size
    @property
    def area(self):
        return f(self) * f(self)
    @property
    def size(self):
        return self._size
    def grow(self):
        self._size += 1
        return self
    def is_small(self):
        return self._size < 3
def f(box):
    return box._size
"""


def test_of_an_object_that_a_variant_leaves_alone_only_views_that_run_it_are_compared(sandbox):
    original = program(VIEWED)
    box = '{"object":["task.module:Box",null,[["_size",2]]]}'.replace("task.module", original.placement.name)
    (outcome,) = outcomes_of(sandbox, original, [f'{{"tuple":[{{"tuple":[{box}]}},{{"dict":[]}}]}}'])
    assert [name for name, _ in json.loads(outcome.seen)[0]] == ["area", "size", "grow()", "is_small()"]
    assert outcome.dependent == (("area", "grow()"), ())
    case = f'{{"tuple":[{{"tuple":[{box}]}},{{"dict":[]}}]}}', outcome.as_row(), outcome.steps, outcome.dependent
    bodies = ["return box._size", "box._size += 1; return 2", "return 2", "return box.__dict__.get('_size', 0)"]
    variants = [Variant(f"def f(box):\n {body}\n", (0,)) for body in bodies]
    assert run_variants_on_cases(sandbox, original, [case], variants) == [[], [0], [0], []]
    without = case[0], replace(outcome, seen=None).as_row(), *case[2:]
    assert run_variants_on_cases(sandbox, original, [without], variants) == [[], [], [], []]


def test_views_that_differ_or_hold_an_address_are_no_part_of_an_outcome():
    one = CallOutcome("1", seen=json.dumps([[["size", 2], ["stamp", 5], ["__repr__", "<Box at 0x7f00aa11bb22>"]], []]))
    two = CallOutcome("1", seen=json.dumps([[["size", 2], ["stamp", 6], ["__repr__", "<Box at 0x7f00aa11bb22>"]], []]))
    assert json.loads(one.keep_common_views(two).seen) == [[["size", 2]], []]
    assert one.keep_common_views(CallOutcome("1")).seen is None
