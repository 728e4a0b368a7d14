"""The checks of a function decide by what programs do, and never by faults of the sandbox or by load."""

from __future__ import annotations

import pytest

from evaluation.datasets import Task
from evaluation.from_code import checks
from evaluation.from_code.mutants import Mutant
from evaluation.from_code.reasons import ExcludedError, SandboxFaultError
from evaluation.sandbox import Limits, Result

ADD = "def add(a, b):\n    return a + b\n"
TASK = Task("t", "def add(a, b):\n", "add", "def check(candidate):\n    assert candidate(1, 2) == 3\n", "")
FAULT = Result("sandbox_error", "no process could be started")


class Scripted:
    """Gives these results, then passes or what the sandbox says."""

    packages = None

    def __init__(self, *results, sandbox=None):
        self.results, self.sandbox = list(results), sandbox

    def judge(self, program, task, limits):
        if self.results:
            return self.results.pop(0)
        return self.sandbox.judge(program, task, limits) if self.sandbox else Result("passed")


def equal_mutants(n):
    return [(Mutant(ADD, f"operator {i}", 1), ADD) for i in range(n)]


def test_a_fault_kills_no_mutant(sandbox):
    score = checks.mutation_score(Scripted(FAULT, FAULT, sandbox=sandbox), TASK, equal_mutants(10))
    assert (score.judged, score.killed) == (10, 0)


def test_a_fault_that_lasts_stops_the_work():
    for check in (
        lambda: checks.mutation_score(Scripted(*[FAULT] * 3), TASK, equal_mutants(1)),
        lambda: checks.passes(Scripted(*[FAULT] * 3), TASK, ADD),
        lambda: checks.refuses_stub(Scripted(*[FAULT] * 3), TASK, ADD),
    ):
        with pytest.raises(SandboxFaultError, match="the sandbox failed repeatedly: no process could be started"):
            check()


def test_a_test_that_cannot_be_loaded_is_the_tasks_fault(sandbox):
    broken = Task("t", "", "add", "import no_such_module\ndef check(candidate):\n    candidate(1, 2)\n", "")
    with pytest.raises(ExcludedError, match="does not pass its own test"):
        checks.passes(sandbox, broken, ADD)


def test_a_mutant_that_waits_forever_or_never_ends_is_killed(sandbox, monkeypatch):
    monkeypatch.setattr(checks, "_MUTANT_LIMITS", Limits(cpu_s=1, wall_s=0.5))
    waits = "import threading\ndef add(a, b):\n    threading.Event().wait()\n"
    assert checks.mutation_score(sandbox, TASK, [(Mutant(waits, "waits", 1), waits)]).killed == 1


def test_the_least_cpu_time_of_several_measurements_counts():
    slow, quick = Result("passed", cpu_s=0.4), Result("passed", cpu_s=0.2)
    checks.passes(Scripted(slow, quick), TASK, ADD)
    with pytest.raises(ExcludedError, match=r"needs more than 0\.3 CPU seconds"):
        checks.passes(Scripted(slow, slow, slow), TASK, ADD)
