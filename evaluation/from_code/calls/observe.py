"""Runs a function in its module, in the sandbox: what calls of it do, and which variants of it do the same.

The project's code runs here on inputs that nobody meant for it, so nothing outside the sandbox may be in its reach.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from evaluation.from_code.calls.volatile import is_volatile
from evaluation.from_code.placing.sharing import KEPT
from evaluation.from_code.placing.spec import ENTRY, FunctionPlacement
from evaluation.from_code.sandbox_jobs import run_without_sandbox_faults
from evaluation.sandbox import Limits, Sandbox, SandboxJob
from evaluation.verdicts import Status

T = TypeVar("T")
BATCH = 300
OTHER_HASH_SEED = "2"
"""Of a second run, in which sets of texts have another order; the first has 0 and the recording 1."""
MAX_FAILED = 3
LIMITS = Limits(cpu_s=8, wall_s=30.0)
SINGLE_VARIANT_LIMITS = replace(LIMITS, call_cpu_s=4)
"""Of a process that tries one variant: the original has one CPU second."""
_VARIANT_LIMITS = Limits(cpu_s=40, wall_s=120.0, call_cpu_s=4)
"""Of a process that tries many variants. Each has a smaller limit, but that does not end one which loops in C code."""


@dataclass(frozen=True)
class CallOutcome:
    """What one call did; values are texts (`recording.values`)."""

    returned: str | None = None  # with the items of a result that is an iterator
    raised: tuple[str, ...] = ()
    after: str | None = None
    refused: str = ""  # why the call cannot be made or its result not written
    failed: str = ""  # how the sandbox ended the program before it answered
    iterates: bool = False  # whether the result is an iterator
    seen: str | None = None  # what a caller sees of the objects afterwards (`placing.views`), as JSON
    dependent: tuple[tuple[str, ...], ...] | None = None  # the views of each value that run the function
    arcs: frozenset[tuple[int, int]] = frozenset()  # the steps from line to line inside the function
    steps: int = 0
    message: str = ""  # what an exception says
    shared: tuple[str, ...] = ()  # places that hold one list, dict or set (`placing.sharing`)
    hidden_inputs: tuple[str, ...] = ()  # CHANCE, CLOCK: what its result may depend on, beside the arguments

    def as_row(self) -> dict[str, Any]:
        """What a call did, as `placing.tree_equality.agrees` reads it."""
        if self.raised:
            return {"raised": list(self.raised), "message": self.message}
        texts = {"returned": self.returned, "seen": self.seen, "after": self.after}
        row = {name: json.loads(text) for name, text in texts.items() if text is not None}
        row |= {"iterator": True} if self.iterates else {}
        return {**row, "shared": list(self.shared)} if self.shared else row

    def keep_common_views(self, other: CallOutcome) -> CallOutcome:
        """The outcome with the views and the message that two observations have in common, and that another day would
        give too."""
        if self.message != other.message or is_volatile(json.dumps(self.message)):
            return replace(self, message="")
        if self.seen is None or other.seen is None:
            return replace(self, seen=None)
        pairs = zip(json.loads(self.seen), json.loads(other.seen), strict=True)
        common = [[view for view in one if view in two and not is_volatile(json.dumps(view))] for one, two in pairs]
        return replace(self, seen=json.dumps(common) if any(common) else None)

    def is_same_as(self, other: CallOutcome) -> bool:
        """Whether both returned or raised the same and left the same arguments; refusals, failures, paths, messages,
        shared containers and views of objects are not compared."""
        return (self.returned, self.raised[:1], self.after, self.iterates) == (
            other.returned, other.raised[:1], other.after, other.iterates
        )  # fmt: skip


@dataclass(frozen=True)
class PlacedFunction:
    """A function's definition, and the place that it runs in."""

    placement: FunctionPlacement
    definition: str
    known: dict[tuple[str, str], bool] = field(default_factory=dict, compare=False, repr=False)
    """By variant (source) and digest of a case's call and expected outcome: whether the case notices it, where that was
    tried."""
    needs_own_process: set[str] = field(default_factory=set, compare=False, repr=False)
    """Variants of which only a process of their own can tell: with others they would end it again."""


class UnobservableError(Exception):
    """The program gave no answer that can be read; the message begins with the status. `index` is that of the command
    which it got last, None if not known."""

    def __init__(self, reason: str, index: int | None = None) -> None:
        super().__init__(reason)
        self.index = index


@dataclass
class Observation:
    """Outcomes in the order of the calls, and the names of the modules that they loaded."""

    outcomes: list[CallOutcome]
    loaded: set[str]


def observe(
    sandbox: Sandbox, program: PlacedFunction, calls: Sequence[str], max_failed: int = 0, limits: Limits = LIMITS
) -> Observation:
    """The outcome of each call, in batches of BATCH; one that does not answer is split, because all its calls share
    one limit of CPU time and of the answer's size.

    At most `max_failed` calls, which end the process or take too long, are `failed`. Raises UnobservableError where
    more do, and SandboxFaultError.
    """
    found = Observation([], set())
    failed = 0

    def observe_part(part: Sequence[str]) -> None:
        nonlocal failed
        try:
            observed = _observe_in_one_process(sandbox, program, part, limits)
        except UnobservableError as reason:
            if len(part) == 1 and failed < max_failed:
                failed += 1
                found.outcomes.append(CallOutcome(failed=str(reason)))
                return
            if len(part) == 1:
                raise
            for smaller in split_at(part, reason.index):
                observe_part(smaller)
        else:
            found.outcomes.extend(observed.outcomes)
            found.loaded |= observed.loaded

    for start in range(0, len(calls), BATCH):
        observe_part(calls[start : start + BATCH])
    return found


def _observe_in_one_process(
    sandbox: Sandbox, program: PlacedFunction, calls: Sequence[str], limits: Limits
) -> Observation:
    if not calls:
        return Observation([], set())
    rows = _run_method(sandbox, program, "observe", calls, limits)
    try:
        outcomes = share_kept([_parse_outcome(row) for row in rows])
        loaded = {str(name) for row in rows for name in row["loaded"]}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnobservableError(f"{Status.FORGED}: the answer cannot be read: {error}") from None
    return Observation(outcomes, loaded)


def share_kept(outcomes: Sequence[CallOutcome]) -> list[CallOutcome]:
    """The outcomes, each with all containers that one of them has from an earlier call: which call is the first depends
    on who asks."""
    kept = {place for each in outcomes for place in each.shared if place.startswith(KEPT)}
    return [replace(each, shared=tuple(sorted({*each.shared, *kept}))) for each in outcomes] if kept else list(outcomes)


def _run_method(
    sandbox: Sandbox, program: PlacedFunction, method: str, commands: Sequence[str], limits: Limits
) -> list[Any]:
    """What the method answers to each command, in one process. Raises UnobservableError, and SandboxFaultError."""
    answers = f"[candidate(each) for each in {list(commands)!r}]"
    test = f"def check(candidate):\n    return '[' + ','.join({answers}) + ']'\n"
    job = SandboxJob(program.placement.build_program(program.definition, method, compiles=True), ENTRY, "", test)
    result = run_without_sandbox_faults(lambda: sandbox.run(job, limits))
    if result.status != Status.PASSED:
        raise UnobservableError(f"{result.status}: {result.detail}", result.calls - 1 if result.calls else None)
    try:
        found = json.loads(result.answer or "")
    except ValueError as error:
        raise UnobservableError(f"{Status.FORGED}: the answer cannot be read: {error}") from None
    if not isinstance(found, list) or len(found) != len(commands):
        raise UnobservableError(f"{Status.FORGED}: the answer has another number of calls")
    return found


def split_at(sequence: Sequence[T], index: int | None) -> list[Sequence[T]]:
    """What is before the index, the item there and what follows; two halves where that is no index of it."""
    if index is None or index >= len(sequence):
        return [sequence[: len(sequence) // 2], sequence[len(sequence) // 2 :]]
    return [sequence[:index], sequence[index : index + 1], sequence[index + 1 :]]


@dataclass(frozen=True)
class Variant:
    """A variant of the function, the numbers of the cases to try it on, and whether to stop at the first that
    notices it."""

    source: str
    numbers: tuple[int, ...]
    stop_at_first: bool = False


def run_variants_on_cases(
    sandbox: Sandbox, program: PlacedFunction, cases: Sequence[tuple[Any, ...]], variants: Sequence[Variant]
) -> list[list[int] | None]:
    """The numbers of the cases (call, expected outcome, the original's steps, its dependent views) that each variant
    does not agree with.

    None where only a process of its own can tell: the variant cannot take the function's place in a loaded module, or
    it ended the process. Nothing untrusted decides here: variants are ours.
    """
    is_alone = len(variants) == 1
    try:
        return _run_variants(sandbox, program, cases, variants, is_alone)
    except UnobservableError as reason:
        if is_alone:
            return [None]
        parts = split_at(variants, reason.index)
    return [answer for part in parts for answer in run_variants_on_cases(sandbox, program, cases, part)]


def _run_variants(
    sandbox: Sandbox,
    program: PlacedFunction,
    cases: Sequence[tuple[Any, ...]],
    variants: Sequence[Variant],
    is_alone: bool,
) -> list[list[int] | None]:
    """What `run_variants_on_cases` returns, from one process. Raises UnobservableError where the process ends, or where
    the original no longer does afterwards what it did; with `is_alone` the latter does not count, because a single
    variant met a fresh module."""
    used = sorted({number for variant in variants for number in variant.numbers})
    if not used:
        return [[] for _ in variants]
    places = {number: place for place, number in enumerate(used)}
    rows = [(each.source, [places[number] for number in each.numbers], each.stop_at_first) for each in variants]
    commands = [json.dumps(each) for each in ([cases[number] for number in used], *rows, None)]
    try:
        _, *found, original = _run_method(sandbox, program, "try_variant", commands, _VARIANT_LIMITS)
    except UnobservableError as reason:
        index = reason.index - 1 if reason.index else None  # the first command has the cases
        raise UnobservableError(str(reason), index) from None
    if original and not is_alone:
        raise UnobservableError(f"{Status.WRONG_ANSWER}: a variant changed what others meet")
    return [None if numbers is None else [used[int(place)] for place in numbers] for numbers in found]


def _parse_outcome(row: dict[str, Any]) -> CallOutcome:
    def write_part(name: str) -> str | None:
        return json.dumps(row[name], separators=(",", ":"), ensure_ascii=True) if name in row else None

    names = tuple(str(name) for name in row.get("raised", []))
    dependent = row.get("dependent")
    ran = None if dependent is None else tuple(tuple(map(str, names)) for names in dependent)
    pairs = frozenset((int(start), int(end)) for start, end in row["arcs"])
    return CallOutcome(
        write_part("returned"), names, write_part("after"), str(row.get("refused", "")), "", "iterator" in row,
        write_part("seen"), ran, pairs, int(row["steps"]), str(row.get("message", "")),
        tuple(map(str, row.get("shared", []))), tuple(map(str, row["hidden_inputs"])),
    )  # fmt: skip
