"""Runs a function on given arguments in the sandbox and returns its behaviour: results, changed arguments, branches.

The project's code runs here on inputs that nobody meant for it, so nothing outside the sandbox may be in its reach.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.from_code.faults import without_faults
from evaluation.from_code.recording import values
from evaluation.sandbox import Job, Limits, Sandbox
from evaluation.verdicts import Status

MAX_STEPS = 200_000
"""Lines of the function and calls of others that one call may take. They are counted because CPU time varies from run
to run, and a call near a limit of it would be in the dataset of one run and not of the next."""
MAX_ITEMS = 200
"""Items that are taken from an iterator; one that has more is not plain data."""
BATCH = 40
MAX_FAILED = 3
LIMITS = Limits(cpu_s=2, wall_s=12.0)
_ENTRY = "__bassline_observe__"
_VALUES = Path(values.__file__).read_text("utf-8")

_INSTALL = """
import builtins as __bassline_builtins__
__bassline_space__ = {{}}
__bassline_builtins__.exec(
    __bassline_builtins__.compile({observer!r}, "<observer>", "exec", dont_inherit=True), __bassline_space__)
{entry} = __bassline_space__["observer"]({function}, (lambda: 0).__code__.co_filename)
"""
"""The observer has a namespace of its own: a program may define names such as `first` or `sorted` for itself."""

_OBSERVER = """
import itertools, json, sys, types
values = types.ModuleType("bassline_values")
exec(compile({values!r}, "<values>", "exec", dont_inherit=True), values.__dict__)

def observer(function, file):
    return lambda calls, first, last: json.dumps([
        outcome(function, text, file, first, last) for text in json.loads(calls)])

class TooLong(BaseException):
    pass

def outcome(function, text, file, first, last):
    args, kwargs = values.read(text)
    arcs, row, steps = set(), {{}}, [0]
    def count():
        steps[0] += 1
        if steps[0] > {steps}:
            raise TooLong
    def trace(frame, event, _value):
        count()
        code = frame.f_code
        if code.co_filename != file or not first <= code.co_firstlineno <= last:
            return None
        previous = [0]
        def lines(inner, what, _):
            if what == "line":
                count()
                arcs.add((previous[0], inner.f_lineno))
                previous[0] = inner.f_lineno
            elif what == "return":
                arcs.add((previous[0], -1))
            return lines
        return lines
    try:
        sys.settrace(trace)
        try:
            result = function(*args, **kwargs)
            if hasattr(type(result), "__next__"):
                row["iterator"] = True
                result = list(itertools.islice(result, {items} + 1))
        finally:
            sys.settrace(None)
    except TooLong:
        pass
    except Exception as error:
        row["raised"] = [kind.__name__ for kind in type(error).__mro__ if kind is not object]
    else:
        try:
            if "iterator" in row and len(result) > {items}:
                raise values.NotPlainError("too large")
            row["returned"] = values.write(result)
        except values.NotPlainError as reason:
            row["refused"] = str(reason)
    try:
        after = values.write((args, kwargs))
        if after != text:
            row["after"] = after
    except values.NotPlainError as reason:
        row["refused"] = str(reason)
    if steps[0] > {steps}:
        row["refused"] = "too long"
    row["arcs"] = sorted(arcs)
    return row
"""


@dataclass(frozen=True)
class Outcome:
    """What one call did, in the fields of `recorded.Call`."""

    returned: str | None = None  # with the items of a result that is an iterator
    raised: tuple[str, ...] = ()
    after: str | None = None
    refused: str = ""  # why the result is not plain data
    failed: str = ""  # how the sandbox ended the program before it answered
    iterates: bool = False  # whether the result is an iterator
    arcs: frozenset[tuple[int, int]] = frozenset()  # the steps from line to line inside the function

    def same_as(self, other: Outcome) -> bool:
        """Whether both did the same, their paths through the function aside."""
        return (self.returned, self.raised[:1], self.after, self.iterates) == (
            other.returned, other.raised[:1], other.after, other.iterates
        )  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A complete program with its function, and the lines of that function in it."""

    text: str
    entry_point: str
    first_line: int
    last_line: int


class UnobservableError(Exception):
    """The program did not answer; `status` is the sandbox's."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail


def observe(sandbox: Sandbox, program: Program, calls: Sequence[str]) -> list[Outcome]:
    """The outcome of each call, in one process. Raises UnobservableError, and SandboxFaultError."""
    observer = _OBSERVER.format(values=_VALUES, items=MAX_ITEMS, steps=MAX_STEPS)
    install = _INSTALL.format(observer=observer, entry=_ENTRY, function=program.entry_point)
    arguments = (json.dumps(list(calls)), program.first_line, program.last_line)
    test = f"def check(candidate):\n    return candidate(*{arguments!r})\n"
    job = Job(program.text + install, _ENTRY, "", test)
    result = without_faults(lambda: sandbox.run(job, LIMITS))
    if result.status != Status.PASSED:
        raise UnobservableError(result.status, result.detail)
    try:
        rows = json.loads(result.answer or "")
        outcomes = [_outcome(row) for row in rows]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnobservableError(Status.FORGED, f"the answer cannot be read: {error}") from None
    if len(outcomes) != len(calls):
        raise UnobservableError(Status.FORGED, "the answer has another number of calls")
    return outcomes


def observe_all(sandbox: Sandbox, program: Program, calls: Sequence[str]) -> list[Outcome]:
    """The outcome of each call, in batches of BATCH; one that takes too long is halved, because all its calls share
    one limit of CPU time. Raises UnobservableError if a call does not answer."""

    def each(part: Sequence[str]) -> list[Outcome]:
        try:
            return observe(sandbox, program, part)
        except UnobservableError as reason:
            if reason.status != Status.TIMEOUT or len(part) == 1:
                raise
        half = len(part) // 2
        return [*each(part[:half]), *each(part[half:])]

    return [outcome for start in range(0, len(calls), BATCH) for outcome in each(calls[start : start + BATCH])]


def observe_each(sandbox: Sandbox, program: Program, calls: Sequence[str]) -> list[Outcome]:
    """The same, with `failed` for calls that end the process or take too long: a batch is halved to find them.

    At most MAX_FAILED calls are found so; Raises UnobservableError where more fail.
    """
    failed = [0]

    def each(part: Sequence[str]) -> list[Outcome]:
        try:
            return observe(sandbox, program, part)
        except UnobservableError as reason:
            if len(part) == 1:
                failed[0] += 1
                if failed[0] > MAX_FAILED:
                    raise
                return [Outcome(failed=str(reason))]
        half = len(part) // 2
        return [*each(part[:half]), *each(part[half:])]

    return [outcome for start in range(0, len(calls), BATCH) for outcome in each(calls[start : start + BATCH])]


def _outcome(row: dict[str, object]) -> Outcome:
    def text(name: str) -> str | None:
        value = row.get(name)
        return value if isinstance(value, str) else None

    raised, arcs = row.get("raised", []), row.get("arcs", [])
    assert isinstance(raised, list)
    assert isinstance(arcs, list)
    names = tuple(str(name) for name in raised)
    pairs = frozenset((int(start), int(end)) for start, end in arcs)
    return Outcome(text("returned"), names, text("after"), text("refused") or "", "", "iterator" in row, pairs)
