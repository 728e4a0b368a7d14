"""Oracles: programs that answer from the table of cases. They show what cases are worth without a real solution.

The right oracle must pass every case, and every case must fail where an oracle is wrong there, beside neighbours that
pass. In languages without a compiler one oracle is wrong at each case alone. Where each program costs a compile there
are two wrong ones, at the even and at the odd positions: a case is asked and compared by itself, so what fails there
fails alone as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evaluation.languages.base import Language
from evaluation.languages.cases import JsonCase, Signature
from evaluation.languages.judging import run_cases
from evaluation.languages.types import Type
from evaluation.languages.values import from_json, to_json
from evaluation.sandbox import Limits, Sandbox
from evaluation.verdicts import Status

LIMITS = Limits(cpu_s=10, wall_s=30.0)
_NO_OTHER = object()


def find_oracle_failure(
    sandbox: Sandbox, language: Language, signature: Signature, cases: Sequence[JsonCase]
) -> str | None:
    """None where all oracles do as their tables say, else what went wrong, in a few words."""
    compiles = language.toolchain.find().tools.compile is not None
    for wrong in (frozenset[int](), *_list_wrong_positions(len(cases), compiles)):
        table = [_build_wrong_case(case, signature.returns) if i in wrong else case for i, case in enumerate(cases)]
        program = language.write_oracle(signature, table)
        judgement = run_cases(sandbox, language, program, signature, cases, LIMITS)
        if judgement.failure is not None:
            return f"the oracle does not run: {judgement.failure.status}: {judgement.failure.detail}"
        for position, outcome in enumerate(judgement.outcomes):
            right = outcome.status is Status.PASSED
            if right == (position in wrong):
                said = "passes" if right else f"fails ({outcome.status}: {outcome.detail})"
                return f"case {position} {said} with an oracle that is {'wrong' if right else 'right'} there"
    return None


def _list_wrong_positions(n: int, compiles: bool) -> list[frozenset[int]]:
    """The positions at which each wrong oracle is wrong; together they cover all cases."""
    if compiles:
        return [frozenset(range(first, n, 2)) for first in range(min(2, n))]
    return [frozenset((position,)) for position in range(n)]


def _build_wrong_case(case: JsonCase, kind: Type) -> JsonCase:
    """The case with another result of the same type; a raised exception becomes a result, and what has no other value
    an exception."""
    if case.raises:
        return replace(case, raises="", result=to_json(_build_any_value(kind), kind))
    other = _build_other_value(from_json(case.result, kind), kind)
    return replace(case, raises="Error") if other is _NO_OTHER else replace(case, result=to_json(other, kind))


def _build_any_value(kind: Type) -> object:
    """A value of the type."""
    simple: dict[str, object] = {
        "none": None, "bool": False, "int": 0, "float": 0.5, "str": "x", "list": [], "dict": {}, "optional": None,
    }  # fmt: skip
    return tuple(map(_build_any_value, kind.parts)) if kind.name == "tuple" else simple.get(kind.name)


def _build_other_value(value: Any, kind: Type) -> object:
    """A value of the type that is not equal to this one, or `_NO_OTHER`: type none has one value."""
    match kind.name:
        case "bool":
            return not value
        case "int":
            return value - 1 if value > 0 else value + 1
        case "float" if math.isfinite(value):
            return value / 2 if abs(value) > 1 else value + 1.5
        case "float":
            return 0.5
        case "str":
            return f"{value}x"
        case "optional":
            return _build_any_value(kind.item) if value is None else _build_other_value(value, kind.item)
        case "list":
            last = _build_other_value(value[-1], kind.item) if value else _NO_OTHER
            return [*value, _build_any_value(kind.item)] if last is _NO_OTHER else [*value[:-1], last]
        case "tuple":
            others = [_build_other_value(item, part) for item, part in zip(value, kind.parts, strict=True)]
            at = next((at for at, other in enumerate(others) if other is not _NO_OTHER), None)
            return _NO_OTHER if at is None else (*value[:at], others[at], *value[at + 1 :])
        case "dict" if not value:
            return {_build_any_value(kind.parts[0]): _build_any_value(kind.parts[1])}
        case "dict":
            key, first = next(iter(value.items()))
            other = _build_other_value(first, kind.parts[1])
            return {} if other is _NO_OTHER else {**value, key: other}
    return _NO_OTHER
