"""Answers that attack their judge, to tasks that recorded calls judge in the real module: none passes by its attack."""

from __future__ import annotations

import pytest

from evaluation.datasets import Task
from evaluation.from_code.placing.spec import Spec
from evaluation.grading import Grader
from evaluation.sandbox import Sandbox
from evaluation.verdicts import Status
from tests.evaluation.project_tests.test_hostile import corpus

RIGHT = ["d01_busy_loop", "e16_no_new_privs", "f17_timer_cancel"]
"""Their function is right. The attack is a statement beside it that binds no name, and the module does not get it."""


@pytest.mark.thorough
def test_of_the_hostile_corpora_only_programs_whose_function_is_right_pass(sandbox: Sandbox) -> None:
    grader = Grader(sandbox)

    def judged(right: bool) -> dict[str, Status]:
        found = {}
        for name, prompt, entry, test, program in corpus(right):
            before, _, _ = prompt.rpartition(f"def {entry}(")
            spec = Spec("answer", False, entry, before, "")
            found[name] = grader.judge(program, Task(name, prompt, entry, test, "", module=spec.packed())).status
        return found

    attacks = judged(right=False)
    assert len(attacks) > 60
    assert [name for name, status in attacks.items() if status in (Status.PASSED, Status.SANDBOX_ERROR)] == RIGHT
    assert judged(right=True)["c01_correct"] == Status.PASSED
