"""Checks of a function before it becomes a task: it repeats the recorded calls, and its test notices faults."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evaluation.datasets import Task
from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.observe import (
    MAX_FAILED,
    OTHER_HASH_SEED,
    SINGLE_VARIANT_LIMITS,
    CallOutcome,
    PlacedFunction,
    UnobservableError,
    Variant,
    observe,
    run_variants_on_cases,
)
from evaluation.from_code.calls.recorded import RecordedCall, compute_digest
from evaluation.from_code.mutants import Mutant
from evaluation.from_code.oversights import UNCLEAR
from evaluation.from_code.placing.module_runner import MAX_MESSAGE
from evaluation.from_code.placing.steps import CHANCE
from evaluation.from_code.placing.tree_equality import agrees
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.sandbox_jobs import run_without_sandbox_faults
from evaluation.from_code.source.examples import DocstringExample
from evaluation.sandbox import Limits, Sandbox
from evaluation.verdicts import Status, Trust

MIN_CASES = 2
MAX_DIFFERENT = 0.1
"""Share of the recorded calls that may differ in the sandbox."""
MAX_MUTANTS = 100
MIN_MUTANTS = 3
MIN_STRONG_CASES = 5
"""Fewer make a weak test."""
FEW_CASES = 5
"""With at most this many cases that are not nearby, the mutants must be of MIN_KINDS kinds, and the results MIN_RESULTS
different ones unless all are True, False or None."""
MIN_KINDS = 3
MIN_RESULTS = 3
_LIMITS = Limits()
_MAX_CPU_S = 1.0
"""CPU seconds of the original on its test: an answer gets three times as many."""
_MEASUREMENTS = 3


@dataclass(frozen=True)
class MutationScore:
    """The mutants that were judged, and which of them passed the test."""

    mutants: tuple[Mutant, ...]
    survivors: tuple[Mutant, ...]

    def drop_unclear(self) -> MutationScore:
        """The score without survivors that may well do the same as the original."""
        unclear = {mutant for mutant in self.survivors if mutant.operator in UNCLEAR}
        kept = ([each for each in group if each not in unclear] for group in (self.mutants, self.survivors))
        return MutationScore(*map(tuple, kept))

    def to_json(self, is_weak: bool) -> dict[str, Any]:
        """What a dataset says of the test."""
        killed = len(self.mutants) - len(self.survivors)
        return {
            "mutants": len(self.mutants),
            "killed": killed,
            "mutation_score": round(killed / len(self.mutants), 4),
            "weak": is_weak,
            "survivors": [f"line {mutant.line}: {mutant.operator}" for mutant in self.survivors],
        }

    def is_weak(self, cases: Sequence[Case]) -> bool:
        """Whether the test misses a fault. Few recorded cases have to notice several kinds of them, and to have several
        results, too."""
        if self.survivors or len(cases) < MIN_STRONG_CASES:
            return True
        if sum(not case.nearby for case in cases) > FEW_CASES:
            return False
        kinds = {mutant.operator for mutant in self.mutants}
        results = {(case.outcome.returned, case.outcome.after) for case in cases if not case.outcome.raised}
        are_switches = all(returned in ("true", "false", "null") for returned, _ in results)
        return len(kinds) < MIN_KINDS or (len(results) < MIN_RESULTS and not are_switches)


@dataclass
class RepeatedCalls:
    """What became of recorded calls when the original repeated them twice in the sandbox."""

    cases: list[Case]  # those that did both times what they did in the tests
    loaded: set[str]  # the modules that they loaded
    n_different: int = 0  # those that did not: they depend on more than their arguments
    refused: str = ""  # why the first of the others could not be made


def repeat_calls(sandbox: Sandbox, program: PlacedFunction, calls: Sequence[RecordedCall]) -> RepeatedCalls:
    """The recorded calls as cases. A call counts as different if one of two runs differs from the recording, or if it
    draws random numbers; one whose result is an iterator, whose items were not recorded, also if it reads the clock.
    Raises ExcludedError where the sandbox gets no answer."""
    texts = [call.call for call in calls]
    try:
        first = observe(sandbox, program, texts)
        second = observe(sandbox.with_hash_seed(OTHER_HASH_SEED), program, texts)
    except UnobservableError as reason:
        raise ExcludedError("cannot do in the sandbox what it did in its tests", str(reason)[:200]) from None
    found = RepeatedCalls([], first.loaded)
    for call, one, two in zip(calls, first.outcomes, second.outcomes, strict=True):
        recorded = CallOutcome(call.returned, call.raised, None if call.raised else call.after)
        if one.refused and two.refused:
            found.refused = found.refused or one.refused
            continue
        is_as_recorded = not one.hidden_inputs if call.iterator else recorded.is_same_as(one)
        repeats = one.refused == two.refused and one.is_same_as(two) and is_as_recorded
        if repeats and CHANCE not in one.hidden_inputs:
            found.cases.append(Case(call.call, call.digest, one.keep_common_views(two), call.shape))
        else:
            found.n_different += 1
    return found


def require_repeated(repeated: RepeatedCalls, calls: Sequence[RecordedCall]) -> None:
    """Raises ExcludedError where more than a few calls differ, as they do after tests that change what a function
    depends on, for example a table of its module; and where none can be made."""
    if repeated.n_different > MAX_DIFFERENT * len(calls):
        raise ExcludedError(
            "does not repeat in the sandbox what it did in its tests",
            f"{repeated.n_different} of {len(calls)} calls differ: state, time, randomness, the order of a set, or its "
            "surroundings",
        )
    if not repeated.cases and repeated.refused:
        raise ExcludedError("has arguments or results that cannot be rebuilt from data", repeated.refused[:200])


def run_docstring_examples(
    sandbox: Sandbox, program: PlacedFunction, examples: Sequence[DocstringExample], known: Sequence[Case]
) -> tuple[list[Case], set[str]]:
    """The docstring's examples as cases, where the original does what they say, the same cases among `known` replaced;
    and the modules that they loaded."""
    calls = [each.call for each in examples]
    try:
        observed = observe(sandbox, program, calls, MAX_FAILED)
        again = observe(sandbox.with_hash_seed(OTHER_HASH_SEED), program, calls, MAX_FAILED).outcomes
    except UnobservableError:
        return list(known), set()
    found = {
        example.call: Case(
            example.call, compute_digest(example.call), replace(one, seen=None), "example", documented=True
        )
        for example, one, two in zip(examples, observed.outcomes, again, strict=True)
        if not (one.refused or one.failed or CHANCE in one.hidden_inputs)
        and example.agrees(one.returned, one.raised)
        and one.is_same_as(two)
    }
    return [*found.values(), *(case for case in known if case.call not in found)], observed.loaded


def check_original(sandbox: Sandbox, task: Task, program: str) -> None:
    """Raises ExcludedError unless the original passes its test by proxy, in a fraction of the time allowed.

    Other work on the machine can only add to the CPU time, so the least of several measurements counts.
    """
    placed, judged = task.build_judged_program(program), task.build_judged_task()
    result = run_without_sandbox_faults(lambda: sandbox.judge(placed, judged, _LIMITS))
    if result.status != Status.PASSED:
        raise ExcludedError("does not pass its own test", f"{result.status}: {result.detail[:200]}")
    if result.trust != Trust.PROXY:
        raise ExcludedError("has a test that would have to run beside the program")
    cpu_s = result.cpu_s
    for _ in range(_MEASUREMENTS - 1):
        if cpu_s > _MAX_CPU_S:
            cpu_s = min(cpu_s, run_without_sandbox_faults(lambda: sandbox.judge(placed, judged, _LIMITS)).cpu_s)
    if cpu_s > _MAX_CPU_S:
        raise ExcludedError(f"needs more than {_MAX_CPU_S} CPU seconds for its test", f"{cpu_s:.2f} s")


def refuse_trivial(sandbox: Sandbox, program: PlacedFunction, cases: Sequence[Case], trivial: Sequence[str]) -> None:
    """Raises ExcludedError where one of the bodies without content passes."""
    *found, original = find_noticing_cases(sandbox, program, cases, [*trivial, program.definition], stop_at_first=True)
    if original:  # else nothing is known about the others
        raise ExcludedError("does not pass its own test", "in a process with others")
    for source, numbers in zip(trivial, found, strict=True):
        if not numbers:
            raise ExcludedError("has a test that a body without content would pass", source.rpartition("\n")[2].strip())


def judge_mutants(
    sandbox: Sandbox, program: PlacedFunction, cases: Sequence[Case], known: MutationScore
) -> MutationScore:
    """The score after the survivors of `known` were judged by these cases. A mutant that takes too many steps, uses up
    its CPU time or waits forever counts as killed; a fault of the sandbox is raised as SandboxFaultError."""
    sources = [mutant.source for mutant in known.survivors]
    noticed = find_noticing_cases(sandbox, program, cases, sources, stop_at_first=True)
    left = tuple(mutant for mutant, numbers in zip(known.survivors, noticed, strict=True) if not numbers)
    return MutationScore(known.mutants, left)


def find_noticing_cases(
    sandbox: Sandbox,
    program: PlacedFunction,
    cases: Sequence[Case],
    sources: Sequence[str],
    stop_at_first: bool = False,
) -> list[list[int]]:
    """For each variant the numbers of the cases that notice it; with `stop_at_first`, the first one only."""
    every = tuple(range(len(cases)))
    variants = [Variant(source, every, stop_at_first) for source in sources]
    return find_noticing_cases_of_variants(sandbox, program, cases, variants)


def find_noticing_cases_of_variants(
    sandbox: Sandbox, program: PlacedFunction, cases: Sequence[Case], variants: Sequence[Variant]
) -> list[list[int]]:
    """For each variant the numbers of the cases that notice it. What was tried before is not tried again: `program`
    keeps it."""
    cache = _NoticeCache(program.known, cases)
    requests = _merge_requests(cache.keep_untried(variant) for variant in variants)
    given = [(case.call, case.build_expected(), case.outcome.steps, case.outcome.dependent) for case in cases]
    together = [request for request in requests if request.source not in program.needs_own_process]
    for request, answer in zip(together, run_variants_on_cases(sandbox, program, given, together), strict=True):
        if answer is None:
            program.needs_own_process.add(request.source)
        else:
            cache.store(request, answer)
    alone = [request for request in requests if request.source in program.needs_own_process]
    for request in alone:
        cache.store(request, _list_noticed_alone(sandbox, program, cases, request))
    return [cache.list_noticing(variant) for variant in variants]


class _NoticeCache:
    """What `known` (PlacedFunction.known) says of these cases, by their numbers."""

    def __init__(self, known: dict[tuple[str, str], bool], cases: Sequence[Case]) -> None:
        self._known = known
        self._keys = [compute_digest(f"{case.call}\n{json.dumps(case.build_expected())}") for case in cases]

    def keep_untried(self, variant: Variant) -> Variant:
        """The variant with the cases alone that it was not tried on; with none where the first is enough and known."""
        tried = {number: self._known.get((variant.source, self._keys[number])) for number in variant.numbers}
        is_first_known = variant.stop_at_first and True in tried.values()
        return replace(variant, numbers=() if is_first_known else tuple(n for n in tried if tried[n] is None))

    def store(self, variant: Variant, noticing: Sequence[int]) -> None:
        """Keep which of the variant's cases notice it; cases after the first that does were not tried."""
        end = variant.numbers.index(noticing[0]) + 1 if variant.stop_at_first and noticing else None
        for number in variant.numbers[:end]:
            self._known[variant.source, self._keys[number]] = number in noticing

    def list_noticing(self, variant: Variant) -> list[int]:
        """The numbers of the variant's cases that are known to notice it, or of the first."""
        noticing = [number for number in variant.numbers if self._known.get((variant.source, self._keys[number]))]
        return noticing[:1] if variant.stop_at_first else noticing


def _merge_requests(variants: Iterable[Variant]) -> list[Variant]:
    """One variant for each source, with the cases of all; without those that have no cases."""
    merged: dict[str, Variant] = {}
    for variant in variants:
        if variant.numbers:
            other = merged.get(variant.source, Variant(variant.source, (), variant.stop_at_first))
            numbers = tuple(sorted({*variant.numbers, *other.numbers}))
            merged[variant.source] = Variant(variant.source, numbers, variant.stop_at_first and other.stop_at_first)
    return list(merged.values())


def _list_noticed_alone(
    sandbox: Sandbox, program: PlacedFunction, cases: Sequence[Case], variant: Variant
) -> list[int]:
    """The numbers of the cases that notice a variant, tried in processes of its own."""
    tried = [cases[number] for number in variant.numbers]
    try:
        placed = replace(program, definition=variant.source)
        outcomes = observe(sandbox, placed, [case.call for case in tried], MAX_FAILED, SINGLE_VARIANT_LIMITS).outcomes
    except UnobservableError:
        return list(variant.numbers)
    return [
        number for number, case, one in zip(variant.numbers, tried, outcomes, strict=True)
        if one.refused or one.failed or not agrees(one.as_row(), case.build_expected(), json.loads(case.call))
    ]  # fmt: skip


def mark_promised(cases: Sequence[Case], docstring: str) -> list[Case]:
    """The cases, with those marked that raise an exception which says what the docstring quotes."""
    text = " ".join(docstring.split())

    def is_quoted(message: str) -> bool:
        said = " ".join(message.split())
        return " " in said and len(message) < MAX_MESSAGE and said in text

    return [
        replace(case, promised=True) if case.outcome.raised and is_quoted(case.outcome.message) else case
        for case in cases
    ]
