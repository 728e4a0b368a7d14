"""Checks before the project's tests judge answers to a function: the original passes them, what is wrong fails them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from textwrap import indent
from typing import Any

from evaluation.from_code.called import list_callee_exceptions
from evaluation.from_code.checks import MutationScore
from evaluation.from_code.mutants import FunctionUse, Mutant, build_mutants, list_parameters, list_trivial_variants
from evaluation.from_code.oversights import UNCLEAR, pair_defaults
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.sandbox_jobs import run_without_sandbox_faults
from evaluation.from_code.source.find import ProjectFunction
from evaluation.project_tests.judge import ProjectJudge
from evaluation.project_tests.running import LIMITS, VariantOutcomes
from evaluation.project_tests.spec import MAX_MEMORY_MIB, ProjectTests
from evaluation.project_tests.splice import splice
from evaluation.sandbox import Limits, SandboxResult
from evaluation.verdicts import Status

MAX_TESTS = 40
"""Tests of a task: the most specific ones, at most three of one test function first."""
FEW_TESTS = 12
"""Where MAX_TESTS take too long."""
MIN_STRONG_TESTS = 8
MIN_STRONG_MUTANTS = 15
"""Fewer tests, or tests that were tried on fewer mutants, are weak: nobody tries calls near to theirs."""
MIN_KILLED = 0.8
MIN_MUTANTS = 5
MAX_MUTANTS = 60
_WEAK = "has tests that miss a mutant, or are few or tried on few"
_OF_ONE_FUNCTION = 3
_MAX_CPU_S = 2.0
TOO_SLOW = f"has tests that need more than {_MAX_CPU_S:g} CPU seconds"
_VARIANT_LIMITS = replace(LIMITS, cpu_s=60, wall_s=120.0)
_MUTANT_LIMITS = replace(LIMITS, cpu_s=4, wall_s=12.0)


@dataclass(frozen=True)
class CheckedTests:
    """The tests of a task, and what they make of mutants."""

    tests: tuple[str, ...]
    score: MutationScore
    writes: bool  # the tests need a folder to write in
    memory_mib: int  # address space of an answer

    @property
    def are_weak(self) -> bool:
        """Whether they miss a mutant, or are too few or tried on too few to say that they miss no other fault."""
        is_small = len(self.tests) < MIN_STRONG_TESTS or len(self.score.mutants) < MIN_STRONG_MUTANTS
        return is_small or bool(self.score.survivors)


def choose_varied_tests(tests: Sequence[str], limit: int) -> list[str]:
    """The first `limit` tests, where cases after the third of one test function come last."""
    seen: dict[str, int] = {}
    ranked = []
    for place, test in enumerate(tests):
        function = test.partition("[")[0]
        seen[function] = seen.get(function, 0) + 1
        ranked.append((max(0, seen[function] - _OF_ONE_FUNCTION), place, test))
    return [test for _, _, test in sorted(ranked)][:limit]


def choose_tests(
    judge: ProjectJudge, spec: ProjectTests, function: ProjectFunction, must_be_strong: bool = False
) -> CheckedTests:
    """The tests that judge answers to a function; `spec.tests` are those that pass, best first.

    Raises ExcludedError where they miss too much; with `must_be_strong` where they are weak.
    """
    arriving = list_callee_exceptions(function.node, function.module.tree)
    use = FunctionUse(function.owner, _take_zero_for_required(function), arriving=arriving)
    every = build_mutants(function.node, MAX_MUTANTS, use)
    faulty = [mutant for mutant in every if mutant.operator not in UNCLEAR]
    if len(faulty) < MIN_MUTANTS:
        raise ExcludedError(f"has fewer than {MIN_MUTANTS} mutants, too few to judge its tests", str(len(faulty)))
    if must_be_strong and (len(spec.tests) < MIN_STRONG_TESTS or len(faulty) < MIN_STRONG_MUTANTS):
        raise ExcludedError(_WEAK)
    empty = list_trivial_variants(function.node, ("ValueError", "TypeError", "KeyError"), function.is_generator)
    tests, write = choose_affordable_tests(judge, spec, function)
    if must_be_strong and len(tests) < MIN_STRONG_TESTS:
        raise ExcludedError(_WEAK)
    trial = _VariantTrial(judge, spec, function, tests)
    survivors: list[Mutant] = []
    allowed = 0 if must_be_strong else len(faulty) - math.ceil(len(faulty) * MIN_KILLED)
    for number in trial.find_survivors([*(mutant.source for mutant in faulty), *empty], allowed):
        if number >= len(faulty):
            body = empty[number - len(faulty)].rpartition("\n")[2].strip()
            raise ExcludedError("has tests that a body without content passes", body)
        survivors.append(faulty[number])
        if len(survivors) > allowed:
            reason = _WEAK if must_be_strong else "has tests that miss more than a fifth of its mutants"
            raise ExcludedError(reason, f"{len(tests)} tests")
    memory_mib = min(MAX_MEMORY_MIB, 2 * trial.memory_bytes // 2**20)
    return CheckedTests(tuple(tests), MutationScore(tuple(faulty), tuple(survivors)), write, memory_mib)


def _take_zero_for_required(function: ProjectFunction) -> dict[str, Any]:
    """0 for each parameter without a default: nobody knows which values the tests give, and this one is common."""
    usual = dict(pair_defaults(function.node.args))
    names = (name for name in list_parameters(function.node) if name not in ("self", "cls"))
    return {name: 0 for name in names if usual.get(name) is None}


def list_killed_variants(
    judge: ProjectJudge, spec: ProjectTests, function: ProjectFunction, variants: Sequence[str]
) -> list[str]:
    """The variants of a function that fail the tests of `spec`."""
    survivors = set(_VariantTrial(judge, spec, function, spec.tests).find_survivors(variants, len(variants)))
    return [variant for number, variant in enumerate(variants) if number not in survivors]


def choose_affordable_tests(
    judge: ProjectJudge, spec: ProjectTests, function: ProjectFunction
) -> tuple[list[str], bool]:
    """At most MAX_TESTS tests that the original passes together, or at most FEW_TESTS where those take too long; and
    whether they write. Raises ExcludedError where it passes none or does not pass them each time, or where these take
    too long as well."""
    try:
        return _choose_passing(judge, spec, function, choose_varied_tests(spec.tests, MAX_TESTS))
    except ExcludedError as error:
        if error.reason != TOO_SLOW or len(spec.tests) <= FEW_TESTS:
            raise
    return _choose_passing(judge, spec, function, choose_varied_tests(spec.tests, FEW_TESTS))


def _choose_passing(
    judge: ProjectJudge, spec: ProjectTests, function: ProjectFunction, tests: Sequence[str]
) -> tuple[list[str], bool]:
    """The tests that the original passes together, and whether they write."""
    source = function.module.source
    first = judge.run(source, spec, tests, LIMITS, stop_early=False)
    kept = [test for test in tests if test in first.passed]
    if not kept:
        raise ExcludedError("is called by tests that do not pass in the sandbox", first.result.detail[:200])
    cpu_s = first.result.cpu_s
    for _ in range(2):  # other work on the machine can only add to it
        if cpu_s > _MAX_CPU_S:
            cpu_s = min(cpu_s, _run_original(judge, spec, source, kept).cpu_s)
    if cpu_s > _MAX_CPU_S:
        raise ExcludedError(TOO_SLOW)
    return kept, first.wrote


def _run_original(judge: ProjectJudge, spec: ProjectTests, source: str, tests: Sequence[str]) -> SandboxResult:
    result = judge_original(judge, spec, source, tests, LIMITS)
    if result.status != Status.PASSED:
        raise ExcludedError("has tests that do not pass each time", result.detail[:200])
    return result


def judge_original(
    judge: ProjectJudge, spec: ProjectTests, source: str, tests: Sequence[str], limits: Limits
) -> SandboxResult:
    """What the tests say of a file as it is, within these limits. Raises SandboxFaultError."""
    return run_without_sandbox_faults(lambda: judge.run(source, spec, tests, limits).result)


@dataclass
class _VariantTrial:
    """Tries variants of a function on tests of its project: together first, because that is quick, then those alone
    that fail none."""

    judge: ProjectJudge
    spec: ProjectTests
    function: ProjectFunction
    tests: Sequence[str]
    memory_bytes: int = field(init=False)  # address space of a variant
    _is_memory_known: bool = False

    def __post_init__(self) -> None:
        self.memory_bytes = self.spec.memory_mib * 2**20 // 2

    def find_survivors(self, variants: Sequence[str], max_unkilled: int) -> Iterator[int]:
        """The numbers of the variants that pass, in their order. They are tried together until more than `max_unkilled`
        are not known to fail, and these alone; then the next ones, unless the caller has enough."""
        begun = 0
        while begun < len(variants):
            found = self._try_together(variants[begun:], max_unkilled)
            for number in range(begun, begun + found.tried):
                if number - begun not in found.killed and self._passes_alone(variants[number]):
                    yield number
            begun += found.tried

    def _try_together(self, variants: Sequence[str], max_unkilled: int) -> VariantOutcomes:
        """What is known of the first variants; of all, and nothing, where no process can try them. The first time it
        finds out how much memory the original needs."""
        found = self._run_together(variants, max_unkilled)
        limits = replace(LIMITS, memory_bytes=self.memory_bytes)
        source = self.function.module.source
        if not (
            self._is_memory_known
            or found.original_passed
            or judge_original(self.judge, self.spec, source, self.tests, limits).status == Status.PASSED
        ):
            self.memory_bytes = LIMITS.memory_bytes
            found = self._run_together(variants, max_unkilled)
            if not found.original_passed:
                _run_original(self.judge, self.spec, source, self.tests)
        self._is_memory_known = True
        return found if found.tried else VariantOutcomes(len(variants))

    def _run_together(self, variants: Sequence[str], max_unkilled: int) -> VariantOutcomes:
        limits = replace(_VARIANT_LIMITS, memory_bytes=self.memory_bytes)
        within = [_wrap_in_classes(variant, self.spec.qualified) for variant in variants]
        source = self.function.module.source
        return self.judge.find_killed_variants(source, self.spec, self.tests, within, limits, max_unkilled)

    def _passes_alone(self, variant: str) -> bool:
        source, limits = self.function.module.source, replace(_MUTANT_LIMITS, memory_bytes=self.memory_bytes)
        spliced = splice(source, self.spec.qualified, self.spec.line, variant)
        assert spliced is not None
        text = spliced.source
        run = self.judge.run
        result = run_without_sandbox_faults(lambda: run(text, self.spec, self.tests, limits).result)
        return result.status == Status.PASSED


def _wrap_in_classes(source: str, qualified: str) -> str:
    for name in reversed(qualified.split(".")[:-1]):
        source = f"class {name}:\n{indent(source, ' ')}"
    return source
