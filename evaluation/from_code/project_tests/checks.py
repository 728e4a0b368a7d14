"""Checks before the project's tests judge answers to a function: the original passes them, what is wrong fails them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluation.from_code.faults import without_faults
from evaluation.from_code.mutants import Mutant, mutants, trivial
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.find import Function
from evaluation.project_tests.judge import ProjectJudge
from evaluation.project_tests.running import LIMITS
from evaluation.project_tests.spec import ProjectTests
from evaluation.project_tests.splice import splice
from evaluation.verdicts import Status

MAX_TESTS = 12
"""Tests of a task: the most specific ones, at most three of one test function first."""
MORE_TESTS = 40
"""Where MAX_TESTS notice too few faults."""
MIN_KILLED = 0.8
MIN_MUTANTS = 5
MAX_MUTANTS = 12
_OF_ONE_FUNCTION = 3
_MAX_CPU_S = 2.0
_MUTANT_LIMITS = replace(LIMITS, cpu_s=4, wall_s=12.0)


@dataclass(frozen=True)
class Checked:
    """The tests of a task, and the mutants that they were tried on."""

    tests: tuple[str, ...]
    judged: int
    survivors: tuple[Mutant, ...]
    write: bool  # the tests need a folder to write in


def varied(tests: Sequence[str], limit: int) -> list[str]:
    """At most `limit` tests, the first ones; of one test function further cases only after three of every other."""
    seen: dict[str, int] = {}
    ranked = []
    for place, test in enumerate(tests):
        function = test.partition("[")[0]
        seen[function] = seen.get(function, 0) + 1
        ranked.append((max(0, seen[function] - _OF_ONE_FUNCTION), place, test))
    return [test for _, _, test in sorted(ranked)][:limit]


def check(judge: ProjectJudge, spec: ProjectTests, function: Function) -> Checked:
    """The tests that judge answers to a function; `spec.tests` are those that pass, best first.

    Raises ExcludedError where they are not worth it.
    """
    source, node = function.module.source, function.node
    faulty = mutants(node, MAX_MUTANTS)
    if len(faulty) < MIN_MUTANTS:
        raise ExcludedError(f"has fewer than {MIN_MUTANTS} mutants, too few to judge its tests", str(len(faulty)))
    tests, write = _repeated(judge, spec, source, varied(spec.tests, MAX_TESTS))
    more = [test for test in varied(spec.tests, MORE_TESTS) if test not in tests]
    survivors = _survivors(judge, spec, source, tests, faulty, len(faulty) if more else _allowed(len(faulty)))
    if len(survivors) > _allowed(len(faulty)) and more:
        tests, write = _repeated(judge, spec, source, [*tests, *more])
        survivors = _survivors(judge, spec, source, tests, survivors, _allowed(len(faulty)))
    if len(survivors) > _allowed(len(faulty)):
        raise ExcludedError("has tests that miss more than a fifth of its mutants", f"{len(tests)} tests")
    for text in trivial(node, ("ValueError", "TypeError", "KeyError"), function.is_generator):
        if _passes(judge, spec, source, tests, text):
            raise ExcludedError("has tests that a body without content passes", text.rpartition("\n")[2].strip())
    return Checked(tuple(tests), len(faulty), tuple(survivors), write)


def _allowed(judged: int) -> int:
    """How many mutants may pass the tests."""
    return judged - math.ceil(judged * MIN_KILLED)


def _repeated(judge: ProjectJudge, spec: ProjectTests, source: str, tests: Sequence[str]) -> tuple[list[str], bool]:
    """The tests that the original passes, together, three times over, and whether they write; the first run says."""
    first = judge.run(source, spec, tests, LIMITS, stop_early=False)
    kept = [test for test in tests if test in first.passed]
    if not kept:
        raise ExcludedError("is called by tests that do not pass in the sandbox", first.result.detail[:200])
    cpu_s = float("inf")
    for _ in range(2):
        result = without_faults(lambda: judge.run(source, spec, kept, LIMITS).result)
        if result.status != Status.PASSED:
            raise ExcludedError("has tests that do not pass each time", result.detail[:200])
        cpu_s = min(cpu_s, result.cpu_s)
    if cpu_s > _MAX_CPU_S:
        raise ExcludedError(f"has tests that need more than {_MAX_CPU_S:g} CPU seconds")
    return kept, first.wrote


def _survivors(
    judge: ProjectJudge, spec: ProjectTests, source: str, tests: Sequence[str], faulty: Sequence[Mutant], enough: int
) -> list[Mutant]:
    """The mutants that pass the tests; the search ends once more than `enough` do."""
    found: list[Mutant] = []
    for mutant in faulty:
        if _passes(judge, spec, source, tests, mutant.source):
            found.append(mutant)
            if len(found) > enough:
                break
    return found


def _passes(judge: ProjectJudge, spec: ProjectTests, source: str, tests: Sequence[str], program: str) -> bool:
    spliced = splice(source, spec.qualified, spec.line, program)
    assert spliced is not None
    result = without_faults(lambda: judge.run(spliced.source, spec, tests, _MUTANT_LIMITS).result)
    return result.status == Status.PASSED
