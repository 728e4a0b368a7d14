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

from evaluation.languages.base import Language, Toolchain
from evaluation.languages.cases import JsonCase, Signature
from evaluation.languages.judging import run_cases
from evaluation.languages.types import Type
from evaluation.languages.values import Json, from_json, to_json
from evaluation.sandbox import Limits, Sandbox
from evaluation.verdicts import Status

LIMITS = Limits(cpu_s=10, wall_s=30.0)


def find_oracle_failure(
    sandbox: Sandbox, language: Language, toolchain: Toolchain, signature: Signature, cases: Sequence[JsonCase]
) -> str | None:
    """None where all oracles do as their tables say, else what went wrong, in a few words."""
    for wrong in (frozenset[int](), *_list_wrong_positions(len(cases), toolchain.tools.compile is not None)):
        table = [_build_wrong_case(case, signature.returns) if i in wrong else case for i, case in enumerate(cases)]
        program = language.write_oracle(signature, table)
        judgement = run_cases(sandbox, language, toolchain, program, signature, cases, LIMITS)
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
    if other is None and kind.name == "none":
        return replace(case, raises="Error")
    return replace(case, result=to_json(other, kind))


def _build_any_value(kind: Type) -> Json:
    """A value of the type."""
    simple: dict[str, Json] = {
        "none": None,
        "bool": False,
        "int": 0,
        "float": 0.5,
        "str": "x",
        "list": [],
        "dict": {},
        "optional": None,
    }
    return tuple(map(_build_any_value, kind.parts)) if kind.name == "tuple" else simple.get(kind.name)


def _build_other_value(value: Json, kind: Type) -> Json:
    """A value of the type that is not equal to this one; None of type none has none."""
    if kind.name == "optional":
        return _build_any_value(kind.item) if value is None else _build_other_value(value, kind.item)
    if kind.name == "bool":
        return not value
    if kind.name == "int":
        return value - 1 if value > 0 else value + 1
    if kind.name == "float":
        return 0.5 if not math.isfinite(value) else value / 2 if abs(value) > 1 else value + 1.5
    if kind.name == "str":
        return f"{value}x"
    if kind.name == "tuple":
        return (_build_other_value(value[0], kind.parts[0]), *value[1:])
    if kind.name == "list":
        return [*value[:-1], _build_other_value(value[-1], kind.item)] if value else [_build_any_value(kind.item)]
    if kind.name == "dict":
        if not value:
            return {_build_any_value(kind.parts[0]): _build_any_value(kind.parts[1])}
        key = next(iter(value))
        return {**value, key: _build_other_value(value[key], kind.parts[1])}
    return None
