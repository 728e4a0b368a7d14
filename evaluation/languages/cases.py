"""The signature and the cases of a task: what is called, with which arguments, and what must come back.

Cases are data. They never become part of an answer's program: arguments go to the driver one case at a time, and what
comes back is compared outside of the program's process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.languages.types import Type, TypeTextError, parse_type
from evaluation.languages.values import Json, ValueFormError, from_json

MAX_CASES = 1000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class CaseError(ValueError):
    """A signature or a case that cannot be used; the message starts with the field at fault."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the function."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Signature:
    """The function that a task asks for."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: Type

    def write_call(self, args: Sequence[str]) -> str:
        """A call from literals, as every language writes it."""
        return f"{self.name}({', '.join(args)})"

    def to_json(self) -> dict[str, Any]:
        """The signature as stored: name, parameters, returns."""
        parameters = [{"name": each.name, "type": str(each.type)} for each in self.parameters]
        return {"name": self.name, "parameters": parameters, "returns": str(self.returns)}


@dataclass(frozen=True, slots=True)
class JsonCase:
    """One call in JSON form: its arguments, and its result or the exception that it raises."""

    args: tuple[Json, ...]
    result: Json = None
    raises: str = ""  # the name of the exception in the original; any exception of the answer fits
    tolerance: float | None = None  # of floats in the result; None: `values` has the default

    def to_json(self) -> dict[str, Any]:
        """The case as stored."""
        outcome: dict[str, Any] = {"raises": self.raises} if self.raises else {"result": self.result}
        tolerance = {} if self.tolerance is None else {"tolerance": self.tolerance}
        return {"args": list(self.args), **outcome, **tolerance}


def read_signature(form: object) -> Signature:
    """The signature in parsed JSON. Raises CaseError."""
    if not isinstance(form, Mapping):
        raise CaseError("field signature: give an object with name, parameters and returns")
    name = form.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise CaseError(f"field signature.name: {name!r} is not a function name")
    rows = form.get("parameters")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise CaseError("field signature.parameters: give a list of objects with name and type")
    parameters = tuple(_parse_parameter(position, row) for position, row in enumerate(rows))
    if len({each.name for each in parameters}) != len(parameters):
        raise CaseError("field signature.parameters: two have the same name")
    return Signature(name, parameters, _parse_type("signature.returns", form.get("returns")))


def _parse_parameter(position: int, row: Mapping[str, Any]) -> Parameter:
    field, name = f"signature.parameters[{position}]", row.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise CaseError(f"field {field}.name: {name!r} is not a parameter's name")
    return Parameter(name, _parse_type(f"{field}.type", row.get("type")))


def _parse_type(field: str, text: object) -> Type:
    if not isinstance(text, str):
        raise CaseError(f"field {field}: give a type, such as list[int]")
    try:
        return parse_type(text)
    except TypeTextError as error:
        raise CaseError(f"field {field}: {error}") from None


def read_cases(form: object, signature: Signature) -> tuple[JsonCase, ...]:
    """The cases in parsed JSON, each checked against the signature. Raises CaseError."""
    if not isinstance(form, list) or not form:
        raise CaseError("field cases: give a list with at least one case")
    if len(form) > MAX_CASES:
        raise CaseError(f"field cases: has {len(form)}, give at most {MAX_CASES}")
    return tuple(_parse_case(f"cases[{position}]", row, signature) for position, row in enumerate(form))


def _parse_case(field: str, row: object, signature: Signature) -> JsonCase:
    if not isinstance(row, Mapping) or not isinstance(row.get("args"), list):
        raise CaseError(f"field {field}: give an object with args and result or raises")
    args = row["args"]
    if len(args) != len(signature.parameters):
        wanted = len(signature.parameters)
        raise CaseError(f"field {field}.args: {signature.name} takes {wanted} arguments, the case has {len(args)}")
    for position, (value, parameter) in enumerate(zip(args, signature.parameters, strict=True)):
        _check_form(f"{field}.args[{position}]", value, parameter.type)
    tolerance = row.get("tolerance")
    if tolerance is not None and (type(tolerance) not in (int, float) or not 0 <= tolerance < float("inf")):
        raise CaseError(f"field {field}.tolerance: {tolerance!r} is not a number from 0")
    raises = row.get("raises")
    if ("result" in row) == (raises is not None):
        raise CaseError(f"field {field}: give either result or raises")
    if raises is not None:
        if not isinstance(raises, str) or not raises:
            raise CaseError(f"field {field}.raises: give the name of the exception")
        return JsonCase(tuple(args), raises=raises, tolerance=tolerance)
    _check_form(f"{field}.result", row["result"], signature.returns)
    return JsonCase(tuple(args), row["result"], tolerance=tolerance)


def _check_form(field: str, form: Json, kind: Type) -> None:
    try:
        from_json(form, kind)
    except ValueFormError as error:
        raise CaseError(f"field {field}: {error}") from None
