"""Adds calls near to the recorded ones to the cases of a function, where a reader can know what is right.

Such a call is shown as an example, or does what recorded calls do: it takes their branches, raises what they raise, and
its arguments are of their kinds. Of 108 right answers by strangers, who saw the prompts alone, to tasks of four
projects, such calls refused none.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from evaluation.from_code import checks
from evaluation.from_code.calls.cases import Case, choose_varied_cases, drop_volatile, format_case
from evaluation.from_code.calls.nearby import NONE_ITEM, UNLIKELY, CallSources, NearbyCall, list_nearby
from evaluation.from_code.calls.observe import (
    MAX_FAILED,
    OTHER_HASH_SEED,
    CallOutcome,
    PlacedFunction,
    UnobservableError,
    observe,
)
from evaluation.from_code.calls.recorded import compute_digest
from evaluation.from_code.fairness import MAX_EXAMPLE_CHARS
from evaluation.from_code.mutants import Mutant
from evaluation.from_code.recording import values
from evaluation.from_code.recording.calls import describe_shape
from evaluation.sandbox import Sandbox

MAX_CALLS = 300
MAX_STEPS = 1_500_000
"""Estimated steps of the original and the survivors on all calls; there are fewer calls for slow
functions, and none if fewer than MIN_CALLS are left."""
MIN_CALLS = 20
MAX_JUDGING = 60
MAX_SHOWN = 6
MAX_ODD = 5
"""Calls that callers seldom make and that are not among the MAX_SHOWN: they are shown too. Where a function has at most
FEW_RESULTS results, calls whose change changes the result are taken, if there are any."""
FEW_RESULTS = 3
MAX_SURVIVORS = 30
_ACCIDENTS = frozenset({
    "TypeError", "AttributeError", "NameError", "LookupError", "ArithmeticError", "AssertionError", "RuntimeError",
    "ImportError", "MemoryError", "SystemExit",
})  # fmt: skip
"""Exceptions that a function raises by chance on arguments that nobody meant for it, with those derived from them."""
_LOOKUPS = ("__getitem__", "__delitem__", "pop", "popitem", "remove", "index")
"""Methods that are meant to raise a LookupError."""


@dataclass(frozen=True)
class NearbyCases:
    """Cases beside the chosen ones: those that a prompt shows, and those that only judge."""

    shown: tuple[Case, ...] = ()
    judging: tuple[Case, ...] = ()


def find_nearby_cases(
    sandbox: Sandbox,
    program: PlacedFunction,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    chosen: Sequence[Case],
    recorded: Sequence[Case],
    survivors: Sequence[Mutant],
    sources: CallSources,
) -> NearbyCases:
    """The cases to add to the `chosen` ones, which the `survivors` pass: recorded ones that tell further mutants apart,
    and calls near to them. Of the calls, those are shown that tell still other mutants apart, take branches that no
    recorded call takes, or raise what none raises. So are at most MAX_ODD that callers seldom make."""
    faulty = [mutant.source for mutant in survivors[:MAX_SURVIVORS]]
    limit = _limit_calls(recorded, 1 + len(faulty))
    if limit < MIN_CALLS:
        return NearbyCases()
    left = [case for case in recorded if case not in chosen][:limit]
    calls = list_nearby(recorded, node, limit, sources)
    accidents = _ACCIDENTS - ({"LookupError"} if node.name in _LOOKUPS else set())
    called = _observe_usual(sandbox, program, list(calls), recorded, accidents)
    if not called and not left:
        return NearbyCases()
    noticing = checks.find_noticing_cases(sandbox, program, [*left, *called], faulty)
    candidates = [
        _Candidate(case, frozenset(n for n, numbers in enumerate(noticing) if number in numbers))
        for number, case in enumerate([*left, *called])
    ]
    telling = _choose_telling(candidates[: len(left)])
    seen = _KnownBehaviour.from_cases(recorded, frozenset().union(*(each.killed for each in telling)))
    near = [_Candidate(each.case, each.killed - seen.killed) for each in candidates[len(left) :]]
    short = _keep_short(near, program.placement.function)
    told = _choose_shown(short, seen)
    odd = _choose_odd([each.case for each in short if each.case not in told], calls, recorded)
    shapes = {case.shape for case in _describe_shapes(recorded)}
    taken = {case.digest for case in (*told, *odd)}
    others = [
        each.case for each in near
        if seen.knows_behaviour(each.case) and each.case.digest not in taken
        and (each.case.shape in shapes or calls[each.case.call].kind.endswith(NONE_ITEM))
    ]  # fmt: skip
    found = [*told, *odd], choose_varied_cases(others, MAX_JUDGING)
    shown, judging = _keep_repeated(sandbox, program, *found)
    return NearbyCases(tuple(shown), (*(each.case for each in telling), *judging))


def _limit_calls(recorded: Sequence[Case], n_programs: int) -> int:
    """The number of calls that MAX_STEPS allows; in large steps, so that a little more or less changes nothing."""
    steps = sum(case.outcome.steps for case in recorded) / len(recorded) + 1
    limit = MAX_CALLS
    while limit * steps * n_programs > MAX_STEPS:
        limit //= 2
    return limit


def _choose_odd(cases: Sequence[Case], calls: Mapping[str, NearbyCall], recorded: Sequence[Case]) -> list[Case]:
    """At most MAX_ODD cases that callers seldom make, one for each kind of change and then others; where results are
    few, those with another one than before the change."""
    odd = [case for case in cases if not calls[case.call].is_likely]
    if len({case.outcome.returned for case in recorded}) <= FEW_RESULTS:  # else most changes change the result
        odd = [case for case in odd if not case.outcome.is_same_as(calls[case.call].origin.outcome)] or odd
    of_kinds = ([case for case in odd if calls[case.call].kind.endswith(kind)] for kind in UNLIKELY)
    first = [case for alike in of_kinds for case in choose_varied_cases(alike, 1)][:MAX_ODD]
    others = [case for case in odd if case not in first]
    return [*first, *choose_varied_cases(others, MAX_ODD - len(first))]


@dataclass(frozen=True)
class _Candidate:
    """A case, and the numbers of the mutants that survive the chosen cases and that it tells from the original."""

    case: Case
    killed: frozenset[int]


@dataclass(frozen=True)
class _KnownBehaviour:
    """What cases show: mutants, the original's branches and the exceptions that it raises."""

    killed: frozenset[int]
    branches: frozenset[tuple[int, int]]
    raised: frozenset[str]

    @classmethod
    def from_cases(cls, cases: Sequence[Case], killed: frozenset[int]) -> _KnownBehaviour:
        """What these cases show."""
        branches = frozenset[tuple[int, int]]().union(*(case.outcome.arcs for case in cases))
        return cls(killed, branches, frozenset(name for case in cases for name in case.outcome.raised[:1]))

    def count_new(self, candidate: _Candidate) -> tuple[int, int, int]:
        """How many mutants, branches and exceptions a case adds."""
        outcome = candidate.case.outcome
        new = len(candidate.killed - self.killed), len(outcome.arcs - self.branches)
        return *new, len(set(outcome.raised[:1]) - self.raised)

    def knows_behaviour(self, case: Case) -> bool:
        """Whether a case takes known branches alone, and raises nothing else than known exceptions."""
        return case.outcome.arcs <= self.branches and self.raised.issuperset(case.outcome.raised[:1])

    def add(self, candidate: _Candidate) -> _KnownBehaviour:
        """With what a case shows."""
        outcome = candidate.case.outcome
        return _KnownBehaviour(
            self.killed | candidate.killed, self.branches | outcome.arcs, self.raised | frozenset(outcome.raised[:1])
        )


def _choose_telling(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """The cases that together tell every mutant apart that one of them does."""
    known: frozenset[int] = frozenset()
    chosen: list[_Candidate] = []
    for each in sorted(candidates, key=lambda each: (-len(each.killed), each.case.digest)):
        if each.killed - known:
            known |= each.killed
            chosen.append(each)
    return chosen


def _keep_short(near: Sequence[_Candidate], name: str) -> list[_Candidate]:
    """Those that a prompt can show, short ones first."""
    texts = {each.case.digest: format_case(each.case, name, MAX_EXAMPLE_CHARS + 1) for each in near}
    short = [each for each in near if len(text := texts[each.case.digest]) <= MAX_EXAMPLE_CHARS and text.isprintable()]
    return sorted(short, key=lambda each: len(texts[each.case.digest]))


def _choose_shown(near: Sequence[_Candidate], seen: _KnownBehaviour) -> list[Case]:
    """At most MAX_SHOWN cases, each time the first of those that add most."""
    pending = list(near)
    chosen: list[Case] = []
    while pending and len(chosen) < MAX_SHOWN:
        best = max(pending, key=seen.count_new)
        if not any(seen.count_new(best)):
            break
        chosen.append(best.case)
        seen = seen.add(best)
        pending.remove(best)
    return chosen


def _observe_usual(
    sandbox: Sandbox, program: PlacedFunction, calls: Sequence[str], recorded: Sequence[Case], accidents: Set[str]
) -> list[Case]:
    """The calls as cases, without accidents, chance and clocks, and plain where all recorded ones are."""
    try:
        outcomes = observe(sandbox, program, calls, MAX_FAILED).outcomes
    except UnobservableError:
        return []
    raised = {case.outcome.raised[0] for case in recorded if case.outcome.raised}
    plain = all(case.is_plain() for case in recorded)

    def is_usual(one: CallOutcome) -> bool:
        is_meant = not one.raised or one.raised[0] in raised or accidents.isdisjoint(one.raised)
        return is_meant and not one.refused and not one.failed and not one.hidden_inputs

    made = zip(calls, outcomes, strict=True)
    cases = [Case(call, compute_digest(call), one, nearby=True) for call, one in made if is_usual(one)]
    return _describe_shapes([case for case in drop_volatile(cases) if case.is_plain() or not plain])


def _keep_repeated(sandbox: Sandbox, program: PlacedFunction, *groups: Sequence[Case]) -> list[list[Case]]:
    """The cases with the views that another process gives too, where sets have another order; none at all where one
    does something else there, since others may agree by luck."""
    cases = [case for group in groups for case in group]
    try:
        again = observe(sandbox.with_hash_seed(OTHER_HASH_SEED), program, [case.call for case in cases]).outcomes
    except UnobservableError:
        return [[] for _ in groups]
    by_digest = {case.digest: outcome for case, outcome in zip(cases, again, strict=True)}
    if any(not case.outcome.is_same_as(two) or two.refused for case, two in zip(cases, again, strict=True)):
        return [[] for _ in groups]
    return [
        [replace(case, outcome=case.outcome.keep_common_views(by_digest[case.digest])) for case in group]
        for group in groups
    ]


def _describe_shapes(cases: Sequence[Case]) -> list[Case]:
    """The cases with the shapes of their arguments as data; a recorder sees the classes of objects."""
    return [replace(case, shape=describe_shape(*values.read_plain(case.call))) for case in cases]
