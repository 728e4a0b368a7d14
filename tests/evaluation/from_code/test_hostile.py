"""Answers that attack their judge, to tasks that recorded calls judge in the real module: none passes."""

from __future__ import annotations

import pytest

from evaluation.datasets import Task
from evaluation.from_code.placing.spec import Spec
from evaluation.grading import Grader
from evaluation.sandbox import Limits, Sandbox
from evaluation.verdicts import Status
from tests.evaluation.project_tests.test_hostile import corpus

LIMITS = Limits(cpu_s=2, wall_s=3.0)
"""The corpus expects three seconds: one of its programs answers right after 3.5."""


@pytest.mark.thorough
def test_no_program_of_the_hostile_corpora_passes(sandbox: Sandbox) -> None:
    grader = Grader(sandbox, LIMITS)

    def judged(right: bool) -> dict[str, Status]:
        found = {}
        for name, prompt, entry, test, program in corpus(right):
            before, _, _ = prompt.rpartition(f"def {entry}(")
            spec = Spec("answer", False, entry, before, "")
            found[name] = grader.judge(program, Task(name, prompt, entry, test, "", module=spec.packed())).status
        return found

    attacks = judged(right=False)
    assert len(attacks) > 60
    assert [name for name, status in attacks.items() if status in (Status.PASSED, Status.SANDBOX_ERROR)] == []
    assert judged(right=True)["c01_correct"] == Status.PASSED


HELPER = "try:\n    import nothing\nexcept ImportError:\n    nothing = 1\n\n"
CHANGED = "OK = True\ntry:\n    OK = False\nfinally:\n    pass\n\n"
ADD = "def add(a, b):\n    return "


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (f"{HELPER}{ADD}a + b * nothing\n", True),
        (f"{ADD}total(a, b)\n\ntotal.calls = 0\n", True),
        (f"{ADD}a + b\n\nwhile True:\n    pass\n", False),
        (f"{CHANGED}{ADD}a + b if OK else 0\n", False),
    ],
)
def test_statements_beside_the_function_run_after_the_module(sandbox: Sandbox, answer: str, expected: bool) -> None:
    spec = Spec("answer", False, "add", "", "\n\ndef total(a, b):\n    return a + b\n")
    test = "def check(candidate):\n    assert candidate(2, 3) == 5\n"
    task = Task("add", "def add(a, b):\n", "add", test, "", module=spec.packed())
    assert Grader(sandbox, LIMITS).judge(answer, task).passed == expected
