"""Answers that attack their judge, to tasks that recorded calls judge in the real module: none passes."""

from __future__ import annotations

import pytest

from evaluation.datasets import Task
from evaluation.from_code.placing.spec import FunctionPlacement
from evaluation.grading import Grader
from evaluation.sandbox import Limits, Sandbox
from evaluation.verdicts import Status
from tests.evaluation.project_tests.test_hostile import corpus


@pytest.mark.thorough
def test_no_program_of_the_hostile_corpora_passes(sandbox: Sandbox) -> None:
    grader = Grader(sandbox, Limits(wall_s=3.0))  # f17 answers after 3.5 s

    def judged(right: bool) -> dict[str, Status]:
        found = {}
        for name, prompt, entry, test, program in corpus(right):
            before, _, _ = prompt.rpartition(f"def {entry}(")
            spec = FunctionPlacement("answer", False, entry, before, "")
            found[name] = grader.judge(program, Task(name, prompt, entry, test, "", module=spec.pack())).status
        return found

    attacks = judged(right=False)
    assert len(attacks) > 60
    assert [name for name, status in attacks.items() if status in (Status.PASSED, Status.SANDBOX_ERROR)] == []
    assert judged(right=True)["c01_correct"] == Status.PASSED


@pytest.mark.parametrize(
    ("beside", "passes"),
    [
        ("while True: pass\n", False),
        ("OK = True\ntry: OK = not OK\nexcept Exception: pass\n", False),
        ("import math\nmath.floor = None\n1 / 0\n", False),
        ("try: import absent as OK\nexcept ImportError: OK = 1\n", True),
        ("OK = []\nOK.append(HERE)\nOK[0] = add(1, 2)\n", True),
        ("TIMES.append(2)\nOK = 1\n", True),
    ],
)
def test_statements_beside_the_function_run_once_in_the_complete_module(
    sandbox: Sandbox, beside: str, passes: bool
) -> None:
    spec = FunctionPlacement("answer", False, "add", "TIMES = [1]\nTIMES.append(2)\n", "HERE = 1\n")
    test = "def check(f):\n    assert f(1, 2) == 3\n"
    program = f"{beside}def add(a, b):\n    return a + b if OK and TIMES == [1, 2] else None\n"
    program = program if "OK" in beside else f"OK = 1\n{program}"

    result = Grader(sandbox).judge(program, Task("t", "", "add", test, "", module=spec.pack()))

    assert (result.status == Status.PASSED) == passes
