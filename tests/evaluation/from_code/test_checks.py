"""The checks of a function decide by what programs do, and never by faults of the sandbox or by load."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from evaluation.datasets import Task
from evaluation.from_code import checks
from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.observe import CallOutcome, PlacedFunction
from evaluation.from_code.calls.recorded import RecordedCall
from evaluation.from_code.mutants import Mutant, list_trivial_variants
from evaluation.from_code.placing.spec import VALUES, FunctionPlacement
from evaluation.from_code.reasons import ExcludedError, SandboxFaultError
from evaluation.from_code.recording import values
from evaluation.sandbox import Limits, SandboxResult

ADD = "def add(a, b):\n    return a + b\n"
PROGRAM = PlacedFunction(FunctionPlacement("m", False, "add", "", "", form=VALUES), ADD)
TASK = Task("t", "def add(a, b):\n", "add", "def check(candidate):\n    assert candidate(1, 2) == 3\n", "")
FAULT = SandboxResult("sandbox_error", "no process could be started")


def case(*args, returned=None, after=None):
    outcome = CallOutcome(
        values.serialize(returned), (), None if after is None else values.serialize((after, {})), steps=3
    )
    return Case(values.serialize((args, {})), "", outcome)


CASES = [case(1, 2, returned=3)]


class Scripted:
    """Gives these results, then passes or what the sandbox says."""

    packages = None

    def __init__(self, *results, sandbox=None):
        self.results, self.sandbox = list(results), sandbox

    def judge(self, program, task, limits):
        if self.results:
            return self.results.pop(0)
        return self.sandbox.judge(program, task, limits) if self.sandbox else SandboxResult("passed")

    def run(self, job, limits):
        return self.results.pop(0) if self.results else self.sandbox.run(job, limits)


def score(sandbox, *sources):
    given = tuple(Mutant(source, f"operator {number}", 1) for number, source in enumerate(sources))
    return checks.judge_mutants(sandbox, replace(PROGRAM, known={}), CASES, checks.MutationScore(given, given))


def test_a_fault_kills_no_mutant(sandbox):
    found = score(Scripted(FAULT, FAULT, sandbox=sandbox), *[ADD] * 10)
    assert (len(found.mutants), len(found.survivors)) == (10, 10)


def test_a_fault_that_lasts_stops_the_work():
    unknown = replace(PROGRAM, known={})
    for check in (
        lambda: score(Scripted(*[FAULT] * 3), ADD),
        lambda: checks.check_original(Scripted(*[FAULT] * 3), TASK, ADD),
        lambda: checks.refuse_trivial(Scripted(*[FAULT] * 3), unknown, CASES, [ADD]),
    ):
        with pytest.raises(SandboxFaultError, match="the sandbox failed repeatedly: no process could be started"):
            check()


def test_calls_that_draw_numbers_are_no_cases_even_where_they_repeat(sandbox):
    lines = "import random\n", "def pick(xs):\n    return xs and random.choice(xs)\n"
    program = PlacedFunction(FunctionPlacement("m", False, "pick", lines[0], ""), lines[1])
    recorded = [
        RecordedCall(values.serialize(((xs,), {})), str(len(xs)), "", values.serialize(result))
        for xs, result in (([], []), ([7], 7))
    ]

    found = checks.repeat_calls(sandbox, program, recorded)

    assert [case.digest for case in found.cases] == ["0"]
    assert found.n_different == 1


def test_calls_that_read_the_clock_differ_from_their_tests_whether_a_second_passes_or_not(sandbox):
    lines = "import time\n", "def stamp(x):\n    return int(time.time()) * x\n"
    program = PlacedFunction(FunctionPlacement("m", False, "stamp", lines[0], ""), lines[1])
    recorded = [
        RecordedCall(values.serialize(((x,), {})), str(x), "", values.serialize(1700000000 * x)) for x in range(3)
    ]

    found = checks.repeat_calls(sandbox, program, recorded)

    assert [case.digest for case in found.cases] == ["0"]
    assert found.n_different == 2
    with pytest.raises(ExcludedError, match="does not repeat in the sandbox what it did in its tests"):
        checks.require_repeated(found, recorded)


def test_a_test_that_cannot_be_loaded_is_the_tasks_fault(sandbox):
    broken = Task("t", "", "add", "import no_such_module\ndef check(candidate):\n    candidate(1, 2)\n", "")
    with pytest.raises(ExcludedError, match="does not pass its own test"):
        checks.check_original(sandbox, broken, ADD)


def test_a_mutant_that_ends_the_process_is_killed_alone(sandbox):
    ends = "def add(a, b):\n    import os\n    os._exit(0)\n"
    found = score(sandbox, ADD, ends, "def add(a, b):\n    return b + a\n")
    assert [mutant.operator for mutant in found.survivors] == ["operator 0", "operator 2"]


def test_a_mutant_that_needs_few_steps_and_much_time_is_killed_in_the_process_of_the_others(sandbox):
    slow = "def add(a, b):\n    for _ in range(400):\n        sum(range(10**7))\n    return a + b\n"
    jobs = []

    class Counting(Scripted):
        def run(self, job, limits):
            jobs.append(job)
            return self.sandbox.run(job, limits)

    found = score(Counting(sandbox=sandbox), slow, ADD)
    assert [mutant.operator for mutant in found.survivors] == ["operator 1"]
    assert len(jobs) == 1


def test_the_least_cpu_time_of_several_measurements_counts():
    slow, quick = SandboxResult("passed", cpu_s=1.2), SandboxResult("passed", cpu_s=0.2)
    checks.check_original(Scripted(slow, quick), TASK, ADD)
    with pytest.raises(ExcludedError, match=r"needs more than 1\.0 CPU seconds"):
        checks.check_original(Scripted(slow, slow, slow), TASK, ADD)


def doing(body):
    return replace(PROGRAM, definition=f"def add(a, b):\n    {body}\n")


GATE = {
    "pass": [case([], 1), case([2], 3)],
    "return None": [case(1, 1), case(2, 2)],
    "return ''": [case(1, 1, returned=""), case(2, 2, returned="")],
    "return 0": [case(1, 1, returned=0), case(1, 2, returned=0.0)],
    "return []": [case(1, 1, returned=[])],
    "return {}": [case(1, 1, returned={})],
    "return b": [case(1, 2, returned=2), case(3, 4, returned=4)],
}


@pytest.mark.parametrize("body", GATE)
def test_cases_that_a_body_without_content_passes_make_no_task(sandbox, body):
    trivial = list_trivial_variants(ast.parse(ADD).body[0], ["KeyError"], False)
    assert any(body in source for source in trivial)
    with pytest.raises(ExcludedError, match="a body without content would pass"):
        checks.refuse_trivial(sandbox, doing(body), GATE[body], trivial)


def test_cases_that_only_raise_make_no_task(sandbox):
    raising = Case(values.serialize(((1, 2), {})), "", CallOutcome(None, ("KeyError", "LookupError"), steps=3))
    trivial = list_trivial_variants(ast.parse(ADD).body[0], ["KeyError"], False)
    with pytest.raises(ExcludedError, match="a body without content would pass") as excluded:
        checks.refuse_trivial(sandbox, doing("raise KeyError"), [raising], trivial)
    assert excluded.value.detail == "raise KeyError"


def test_bodies_are_compared_only_where_the_original_does_what_it_did(sandbox):
    with pytest.raises(ExcludedError, match="does not pass its own test"):
        checks.refuse_trivial(sandbox, doing("return 4"), CASES, [ADD])


LAZY = """from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from collections import OrderedDict
    from nowhere import Thing


"""


@pytest.mark.parametrize(
    "answer",
    [
        "def f(x: Thing) -> Thing:\n    return x\n",
        "from nowhere import Thing\ndef f(x: Thing) -> Thing:\n    return x\n",
        "if TYPE_CHECKING:\n    from nowhere import Thing\ndef f(x: Thing) -> Thing:\n    return x\n",
        "from nowhere import Thing\ndef own(x: Thing):\n    return x\ndef f(x: Thing):\n    return own(x)\n",
        "from collections import OrderedDict\ndef f(x):\n    return OrderedDict(a=x)['a']\n",
    ],
)
def test_an_answer_may_import_and_use_what_its_module_leaves_to_type_checkers(sandbox, answer):
    task = Task(
        "t", "def f(x: Thing) -> Thing:\n", "f", "def check(candidate):\n    assert candidate(3) == 3\n", "",
        module=FunctionPlacement("m", False, "f", LAZY, "").pack(),
    )  # fmt: skip
    result = sandbox.judge(task.build_judged_program(answer), task.build_judged_task(), Limits())
    assert (result.status, result.detail) == ("passed", "")


def test_the_message_of_an_exception_counts_where_the_docstring_quotes_it(sandbox):
    raised = CallOutcome(None, ("ValueError", "Exception"), steps=3, message="no items given")
    given = [Case(values.serialize(((1, 2), {})), "", raised), case(1, 3, returned=4)]
    marked = checks.mark_promised(given, "Raises ValueError: no\n    items given.")
    assert [each.promised for each in marked] == [True, False]
    assert not any(each.promised for each in checks.mark_promised(given, "Raises ValueError."))
    bodies = [f"if b == 2: raise ValueError({text!r})\n    return 4" for text in ("no items given", "empty")]
    sources = [doing(body).definition for body in bodies]
    assert checks.find_noticing_cases(sandbox, doing(bodies[0]), marked, sources) == [[], [0]]
    assert checks.find_noticing_cases(sandbox, doing(bodies[0]), given, sources) == [[], []]


FIVE = [case(number, returned=number) for number in range(5)]


@pytest.mark.parametrize(
    ("cases", "kinds", "survivor", "is_weak"),
    [
        (FIVE, ("argument", "comparison", "result"), None, False),
        (FIVE, ("argument", "argument", "result"), None, True),
        (FIVE, ("argument", "comparison", "result", *["constant"] * 20), "constant", True),
        ([*FIVE, case(9, returned=9)], ("argument", "argument", "result"), None, False),
        ([*FIVE, case(9, returned=9)], ("argument", *["constant"] * 30), "argument", True),
        ([case(1, returned=1), case(2, returned=2)], ("argument", "comparison", "result"), None, True),
        ([case(n, returned=n > 2) for n in range(5)], ("argument", "comparison", "result"), None, False),
        ([case(n, returned=n) for n in range(4)], ("argument", "comparison", "result"), None, True),
    ],
)
def test_cases_are_weak_that_miss_a_fault_and_few_that_notice_few_kinds(cases, kinds, survivor, is_weak):
    made = [Mutant(str(number), kind, 1) for number, kind in enumerate(kinds)]
    survivors = [mutant for mutant in made if mutant.operator == survivor][:1]
    assert checks.MutationScore(tuple(made), tuple(survivors)).is_weak(cases) == is_weak


def test_an_order_of_conditions_that_no_call_tells_apart_counts_neither_way():
    order, other = Mutant("a", "order", 1), Mutant("b", "constant", 1)
    score = checks.MutationScore((order, other), (order, other)).drop_unclear()
    assert score == checks.MutationScore((other,), (other,))
    noticed = checks.MutationScore((order, other), (other,))
    assert noticed.drop_unclear() == noticed
