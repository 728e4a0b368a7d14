"""Cases and the test that is made of them, in HumanEval's form."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.from_code.calls.literals import has_float, literal
from evaluation.from_code.calls.observe import Outcome
from evaluation.from_code.recording import values

_SAME = '''import math


def same(got, expected):
    """Equal, floats within a relative tolerance of 1e-9."""
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12) or (got != got and expected != expected)
    if isinstance(expected, (list, tuple)):
        alike = isinstance(got, list) if isinstance(expected, list) else isinstance(got, tuple)
        return alike and len(got) == len(expected) and all(same(a, b) for a, b in zip(got, expected))
    if isinstance(expected, dict):
        alike = isinstance(got, dict) and len(got) == len(expected)
        return alike and all(key in got and same(got[key], value) for key, value in expected.items())
    return got == expected


'''


@dataclass(frozen=True)
class Case:
    """One call and what the original did. `recorded`: the project's tests made this call; else it was generated."""

    call: str
    digest: str
    outcome: Outcome
    recorded: bool
    shape: str = ""

    def is_telling(self) -> bool:
        """Whether a function that does nothing would fail it."""
        return bool(self.outcome.raised) or self.outcome.after is not None or self.outcome.returned != "null"


def test_of(cases: Sequence[Case], exceptions: frozenset[str]) -> str:
    """Source that defines check(candidate): one assertion for each case.

    `exceptions` are the exception classes that the task's prompt defines. A call whose exception is neither one of
    these nor builtin is expected to raise its first base that is.
    """
    lines: list[str] = []
    needs_same = False
    iterators = any(case.outcome.iterates for case in cases)
    for case in cases:
        args, kwargs = values.read(case.call)
        iterates = case.outcome.iterates or (bool(case.outcome.raised) and iterators)
        if case.outcome.raised:
            lines += _raises(_call(args, kwargs, iterates), exception_of(case.outcome.raised, exceptions))
            continue
        result = values.read(case.outcome.returned or "null")
        after = None if case.outcome.after is None else values.read(case.outcome.after)
        needs_same = needs_same or has_float((result, after))
        if after is None:
            lines.append(f"    assert {_equal(_call(args, kwargs, iterates), result)}")
            continue
        lines.append(f"    args, kwargs = {literal(list(args))}, {literal(kwargs)}")
        lines.append(f"    assert {_equal(_wrapped('candidate(*args, **kwargs)', iterates), result)}")
        lines.append(f"    assert {_equal('args', list(after[0]))}")
        if kwargs:
            lines.append(f"    assert {_equal('kwargs', after[1])}")
    return (_SAME if needs_same else "") + "def check(candidate):\n" + "\n".join(lines) + "\n"


def exception_of(raised: Sequence[str], exceptions: frozenset[str]) -> str:
    """The first class that a test can name: one of the prompt's, or a builtin one."""
    for name in raised:
        kind = getattr(builtins, name, None)
        if name in exceptions or (isinstance(kind, type) and issubclass(kind, BaseException)):
            return name
    return "Exception"


def _raises(call: str, exception: str) -> list[str]:
    return [
        "    try:",
        f"        {call}",
        f"    except {exception}:",
        "        pass",
        "    else:",
        f"        raise AssertionError({f'{call} should raise {exception}'[:200]!r})",
    ]


def _equal(call: str, expected: object) -> str:
    if has_float(expected):
        return f"same({call}, {literal(expected)})"
    if expected is None or isinstance(expected, bool):
        return f"{call} is {expected!r}" if expected is None else f"{call} == {expected!r}"
    return f"{call} == {literal(expected)}"


def _call(args: Sequence[object], kwargs: dict[str, object], iterates: bool) -> str:
    given = [*map(literal, args), *(f"{name}={literal(value)}" for name, value in kwargs.items())]
    return _wrapped(f"candidate({', '.join(given)})", iterates)


def _wrapped(call: str, iterates: bool) -> str:
    return f"list({call})" if iterates else call
