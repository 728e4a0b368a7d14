"""The bases of the API's schemas, and their errors as sentences."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from app.core.errors import BadInputError
from decoding.suggest import suggest_one_of

S = TypeVar("S", bound=BaseModel)
Budget = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""Seconds in a query."""
Margin = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
"""Points in a query."""
LONGEST_ECHO = 60
REMEDIES = {
    "int_parsing": "give a whole number",
    "int_from_float": "give a whole number",
    "float_parsing": "give a number",
    "finite_number": "give a number",
    "bool_parsing": "give true or false",
    "greater_than": "give a number above {gt}",
    "greater_than_equal": "give {ge} or more",
    "less_than": "give a number below {lt}",
    "less_than_equal": "give {le} or less",
    "string_too_short": "fill it in",
    "string_too_long": "shorten it to {max_length} characters",
}
"""What to do about a value, by the name that pydantic gives the fault."""


class _Schema(BaseModel):
    @classmethod
    def from_row(cls, row: object, /, **computed: object) -> Self:
        """The document of a row: attributes of the same names, except for those that are `computed`."""
        named = {name: getattr(row, name) for name in cls.model_fields if name not in computed and hasattr(row, name)}
        return cls.model_validate(named | computed, from_attributes=True)


class RequestModel(_Schema):
    """Base of request schemas. An unknown field is probably misspelled, so it is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ResponseModel(_Schema):
    """Base of response schemas. Fields that were not set are left out of the JSON."""

    model_config = ConfigDict(frozen=True)


def parse_spec(kind: type[S], values: dict[str, Any]) -> S:
    """The checked values. Raises BadInputError with one sentence naming the field and the remedy."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise to_bad_input(error) from None


def to_bad_input(error: ValidationError) -> BadInputError:
    """The first error of a validation as one sentence that names the field and the remedy."""
    fault = error.errors()[0]
    kind, message = fault["type"], fault["msg"].removeprefix("Value error, ")
    field = ".".join(str(part) for part in fault["loc"]) or None
    if kind == "json_invalid":
        return BadInputError(f"the body is not JSON: {message.removeprefix('Invalid JSON: ')}")
    if field is None and kind == "model_type":
        return BadInputError("the body is not a JSON object: send one, as in {...}")
    return BadInputError(message if field is None else describe_fault(field, fault), field)


def describe_fault(name: str, fault: ErrorDetails) -> str:
    """What is wrong with the field that readers know by this name, and what to do."""
    kind, given = fault["type"], fault["input"]
    if kind == "extra_forbidden":
        return f"{name} is not a known field: remove it"
    if kind == "missing":
        return f"{name} is missing: give one"
    if kind in ("too_long", "too_short"):
        bounds = fault["ctx"]
        limit = f"at most {bounds['max_length']}" if "max_length" in bounds else f"at least {bounds['min_length']}"
        return f"{name} has {bounds['actual_length']} entries: give {limit}"
    shown = "empty" if given == "" else repr(given)
    if len(shown) > LONGEST_ECHO:
        shown = f"{shown[:LONGEST_ECHO]}... ({len(shown)} characters)"
    remedy = _find_remedy(fault)
    return f"{name} is {shown}: {remedy[0].lower() + remedy[1:]}"


def _find_remedy(fault: ErrorDetails) -> str:
    kind, given = fault["type"], fault["input"]
    if kind in ("literal_error", "enum") and isinstance(given, str):
        return suggest_one_of(given, re.findall(r"'([^']*)'", str(fault["ctx"]["expected"])))
    if kind == "string_pattern_mismatch" and "\0" in str(given):
        return "a text must not hold the character NUL: remove it"
    limits = {name: f"{x:g}" if isinstance(x, float) else x for name, x in fault.get("ctx", {}).items()}
    return REMEDIES[kind].format(**limits) if kind in REMEDIES else fault["msg"].removeprefix("Value error, ")
