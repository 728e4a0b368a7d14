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
    """Equal, floats within a relative tolerance of 1e-9{dicts}."""
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12) or (got != got and expected != expected)
    if isinstance(expected, (list, tuple)):
        alike = isinstance(got, list) if isinstance(expected, list) else isinstance(got, tuple)
        return alike and len(got) == len(expected) and all(same(a, b) for a, b in zip(got, expected))
    if isinstance(expected, dict):
        alike = isinstance(got, dict) and {keys}
        return alike and all(key in got and same(got[key], value) for key, value in expected.items())
    return got == expected


'''
_ANY_ORDER = _SAME.format(dicts="", keys="len(got) == len(expected)")
_IN_ORDER = _SAME.format(dicts=", the keys of dicts in order", keys="list(got) == list(expected)")


@dataclass(frozen=True)
class Case:
    """One call and what the original did. `recorded`: the project's tests made this call; else it was generated."""

    call: str
    digest: str
    outcome: Outcome
    recorded: bool
    shape: str = ""

    def is_informative(self) -> bool:
        """Whether a function that does nothing would fail it."""
        return bool(self.outcome.raised) or self.outcome.after is not None or self.outcome.returned != "null"


def order_is_effect(cases: Sequence[Case]) -> bool:
    """Whether the calls do nothing but change the order of dicts: where a test does not compare it, a body that does
    nothing or that returns its argument would pass."""
    changed = False
    for case in cases:
        if case.outcome.raised:
            continue
        args, kwargs = before = values.read(case.call)
        after = before if case.outcome.after is None else values.read(case.outcome.after)
        result = values.read(case.outcome.returned or "null")
        sources = [value for value in (*args, *kwargs.values()) if value == result]
        if after != before or not (result is None or sources):
            return False
        orders = [_with_order(value) for value in sources]
        reordered = bool(orders) and _with_order(result) not in orders
        changed = changed or reordered or _with_order(after) != _with_order(before)
    return changed


def _with_order(value: object) -> object:
    """The value with dicts as lists of their items, which differ where the order differs."""
    if isinstance(value, dict):
        return [(key, _with_order(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_with_order(item) for item in value]
    return value


def test_of(cases: Sequence[Case], exceptions: frozenset[str]) -> str:
    """Source that defines check(candidate): one assertion for each case.

    `exceptions` are the exception classes that the task's prompt defines. A call whose exception is neither one of
    these nor builtin is expected to raise its first base that is.
    """
    lines: list[str] = []
    in_order = order_is_effect(cases)
    changes_arguments = any(case.outcome.after is not None for case in cases)
    needs_same = in_order
    iterators = any(case.outcome.iterates for case in cases)
    for case in cases:
        args, kwargs = values.read(case.call)
        iterates = case.outcome.iterates or (bool(case.outcome.raised) and iterators)
        if case.outcome.raised:
            lines += _raises(_call(args, kwargs, iterates), exception_of(case.outcome.raised, exceptions))
            continue
        result = values.read(case.outcome.returned or "null")
        after = None if case.outcome.after is None else values.read(case.outcome.after)
        if after is None and in_order and changes_arguments:
            after = args, kwargs
        needs_same = needs_same or has_float((result, after))
        if after is None:
            lines.append(f"    assert {_equal(_call(args, kwargs, iterates), result, in_order)}")
            continue
        lines.append(f"    args, kwargs = {literal(list(args))}, {literal(kwargs)}")
        lines.append(f"    assert {_equal(_wrapped('candidate(*args, **kwargs)', iterates), result, in_order)}")
        lines.append(f"    assert {_equal('args', list(after[0]), in_order)}")
        if kwargs:
            lines.append(f"    assert {_equal('kwargs', after[1], in_order)}")
    helper = _IN_ORDER if in_order else _ANY_ORDER
    return (helper if needs_same else "") + "def check(candidate):\n" + "\n".join(lines) + "\n"


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


def _equal(call: str, expected: object, in_order: bool) -> str:
    if has_float(expected) or (in_order and isinstance(expected, dict | list | tuple)):
        return f"same({call}, {literal(expected)})"
    if expected is None or isinstance(expected, bool):
        return f"{call} is {expected!r}" if expected is None else f"{call} == {expected!r}"
    return f"{call} == {literal(expected)}"


def _call(args: Sequence[object], kwargs: dict[str, object], iterates: bool) -> str:
    given = [*map(literal, args), *(f"{name}={literal(value)}" for name, value in kwargs.items())]
    return _wrapped(f"candidate({', '.join(given)})", iterates)


def _wrapped(call: str, iterates: bool) -> str:
    return f"list({call})" if iterates else call
