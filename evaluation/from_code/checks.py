"""Checks of a function before it becomes a task: it repeats the recorded calls, and its test notices faults."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.datasets import Task
from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.observe import Outcome, Program, UnobservableError, observe_all, observe_each
from evaluation.from_code.calls.recorded import Call
from evaluation.from_code.faults import without_faults
from evaluation.from_code.mutants import Mutant
from evaluation.from_code.reasons import ExcludedError
from evaluation.sandbox import Limits, Sandbox
from evaluation.verdicts import Status, Trust

MIN_CASES = 3
MAX_DIFFERENT = 0.1
"""Share of the recorded calls that may differ in the sandbox."""
WEAK_BELOW = 0.8
"""Mutation score below which a test is called weak."""
MAX_MUTANTS = 20
MIN_MUTANTS = 10
_LIMITS = Limits()
_MUTANT_LIMITS = Limits(cpu_s=1, wall_s=6.0)
_MAX_CPU_S = 0.3
"""CPU seconds of the original on its test: a mutant gets three times as many before it counts as endless."""
_MEASUREMENTS = 3


@dataclass(frozen=True)
class MutationScore:
    """How many mutants were judged, and which of them passed the test."""

    judged: int
    survivors: tuple[Mutant, ...]

    @property
    def killed(self) -> int:
        """Mutants that failed the test."""
        return self.judged - len(self.survivors)

    @property
    def score(self) -> float:
        """Share of the mutants that the test kills, from 0 to 1."""
        return self.killed / self.judged


def repeated(sandbox: Sandbox, program: Program, calls: Sequence[Call]) -> list[Case]:
    """The recorded calls as cases, after the original repeated them twice in the sandbox.

    Calls that do not repeat are dropped where they are few: tests change what a function depends on,
    for example a table of its module. Raises ExcludedError where they are many, and where two runs differ.
    """
    texts = [call.call for call in calls]
    try:
        first, second = (observe_all(sandbox, program, texts) for _ in range(2))
    except UnobservableError as reason:
        raise ExcludedError("cannot do in the sandbox what it did in its tests", str(reason)[:200]) from None
    cases: list[Case] = []
    differs = 0
    for call, one, two in zip(calls, first, second, strict=True):
        if not one.same_as(two) or one.refused != two.refused:
            raise ExcludedError("gives other results when it is called again", "random, the time, or a state")
        if one.refused:
            continue
        recorded = Outcome(call.returned, call.raised, call.after)
        if call.iterator or recorded.same_as(one):
            cases.append(Case(call.call, call.digest, one, True, call.shape))
        else:
            differs += 1
    if differs > MAX_DIFFERENT * len(calls):
        raise ExcludedError(
            "does not repeat in the sandbox what it did in its tests",
            f"{differs} of {len(calls)} calls differ: state, time, randomness, the order of a set, or its surroundings",
        )
    return cases


def generated(sandbox: Sandbox, program: Program, calls: Sequence[Call], known: Sequence[Case]) -> list[Case]:
    """Generated calls as cases, with the original's answers. Those that end with an exception that no recorded call
    raises are dropped: such an input is probably outside what the function is for."""
    seen = {case.digest for case in known}
    raised = {case.outcome.raised[:1] for case in known}
    fresh = [call for call in calls if call.digest not in seen]
    texts = [call.call for call in fresh]
    try:
        first, second = (observe_each(sandbox, program, texts) for _ in range(2))
    except UnobservableError:
        return []
    return [
        Case(call.call, call.digest, one, False, call.shape)
        for call, one, two in zip(fresh, first, second, strict=True)
        if one.same_as(two) and not (one.refused or two.refused or one.failed or two.failed)
        if one.raised[:1] in raised | {()}
    ]


def passes(sandbox: Sandbox, task: Task, program: str) -> None:
    """Raises ExcludedError unless the original passes its test by proxy, in a fraction of the time allowed.

    Other work on the machine can only add to the CPU time, so the least of several measurements counts.
    """
    result = without_faults(lambda: sandbox.judge(program, task, _LIMITS))
    if result.status != Status.PASSED:
        raise ExcludedError("does not pass its own test", f"{result.status}: {result.detail[:200]}")
    if result.trust != Trust.PROXY:
        raise ExcludedError("has a test that would have to run beside the program")
    cpu_s = result.cpu_s
    for _ in range(_MEASUREMENTS - 1):
        if cpu_s > _MAX_CPU_S:
            cpu_s = min(cpu_s, without_faults(lambda: sandbox.judge(program, task, _LIMITS)).cpu_s)
    if cpu_s > _MAX_CPU_S:
        raise ExcludedError(f"needs more than {_MAX_CPU_S} CPU seconds for its test", f"{cpu_s:.2f} s")


def refuses_stub(sandbox: Sandbox, task: Task, stub: str) -> None:
    """Raises ExcludedError where a program whose function does nothing passes the test."""
    if without_faults(lambda: sandbox.judge(stub, task, _LIMITS)).status == Status.PASSED:
        raise ExcludedError("has a test that an empty function (pass) would pass")


def mutation_score(sandbox: Sandbox, task: Task, programs: Sequence[tuple[Mutant, str]]) -> MutationScore:
    """The mutants' programs judged by the task's test. One that uses up its CPU time or waits forever counts as killed;
    a fault of the sandbox is raised as SandboxFaultError."""
    survivors: list[Mutant] = []
    for mutant, program in programs:
        if _is_passed(sandbox, task, program):
            survivors.append(mutant)
    return MutationScore(len(programs), tuple(survivors))


def _is_passed(sandbox: Sandbox, task: Task, program: str) -> bool:
    return without_faults(lambda: sandbox.judge(program, task, _MUTANT_LIMITS)).status == Status.PASSED


def definition_in(program: Program) -> ast.FunctionDef:
    """The function's definition in its program, the last of its name."""
    nodes = [node for node in ast.parse(program.text).body if isinstance(node, ast.FunctionDef)]
    return [node for node in nodes if node.name == program.entry_point][-1]
