"""How an option of a run is declared, and how the rest of the service reads the declaration.

An option is one field of a model in app/runs/schemas.py: its type, range, default and description are pydantic's, and
an `Option` in its annotation holds the rest. The command line, REST, the forms, the Config tab, overlays, the
fingerprint, the command that repeats a run and the JSON of runs all read `get_options`, so none of them lists options.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from app.web.ui.units import format_seconds


class Fieldset(enum.StrEnum):
    """The parts of the form for a new run, in their order."""

    MODEL = "Model and tasks"
    SAMPLES = "Samples and budget"
    DECODING = "Decoding"
    RUN = "Run"


@dataclass(frozen=True, slots=True)
class Option:
    """What pydantic does not know of an option: put it into the annotation of the field.

    `choices` are all values of an option that takes one of a few words. `fingerprint` says whether runs that differ
    in this option differ in their configuration on the leaderboard.
    """

    label: str
    fieldset: Fieldset
    choices: tuple[str, ...] = ()
    fingerprint: bool = True

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The field's JSON schema, with the choices for OpenAPI."""
        written = handler(schema)
        return {**written, "enum": list(self.choices)} if self.choices else written


@dataclass(frozen=True, slots=True)
class DeclaredOption(Option):
    """One option of a model, as every part of the service reads it. `type` is bool, int, float, str or tuple."""

    _: KW_ONLY
    name: str
    type: type
    required: bool
    default: Any
    help: str

    @property
    def in_seconds(self) -> bool:
        """Whether the value is a duration."""
        return self.name.endswith("_s")

    @property
    def flag(self) -> str:
        """The option of the command line: `--budget` for `budget_s`, `--task` for `task_ids`."""
        return get_flag(self.name)

    @property
    def form_label(self) -> str:
        """The label of the field in a form, with the unit to type the value in."""
        return f"{self.label}, seconds" if self.in_seconds else self.label

    @property
    def stored_type(self) -> Any:
        """The type of the value that a run has: the ranges and choices of today may not hold for an older run."""
        return self.type | None if self.default is None and not self.required else self.type

    def format_value(self, value: Any) -> str:
        """The value for people, with its unit."""
        if value is None:
            return "none"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self.in_seconds:
            return format_seconds(value)
        return f"{value:g}" if isinstance(value, float) else str(value)


def get_flag(name: str) -> str:
    """The option of the command line for a field."""
    return "--" + re.sub(r"_(s|ids?)$", "", name).replace("_", "-")


@cache
def get_options(model: type[BaseModel]) -> Mapping[str, DeclaredOption]:
    """The options that the model declares, by name, in their order; fields without an `Option` are none."""
    found = {}
    for name, field in model.model_fields.items():
        option = next((item for item in field.metadata if isinstance(item, Option)), None)
        if option is not None:
            found[name] = DeclaredOption(
                **asdict(option),
                name=name,
                type=get_value_type(field.annotation),
                required=field.is_required(),
                default=None if field.is_required() else field.default,
                help=field.description or "",
            )
    return found


def get_value_type(annotation: Any) -> type:
    """The class of the values: of `float | None` float, of a Literal str, of `tuple[str, ...]` tuple."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return next(get_value_type(part) for part in get_args(annotation) if part is not NoneType)
    if origin is Annotated:
        return get_value_type(get_args(annotation)[0])
    if origin is Literal:
        return str
    found: type = origin or annotation
    return found
