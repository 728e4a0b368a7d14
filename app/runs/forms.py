"""A specification as a web form: its fields, and its errors all at once; typed values are kept."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from app.core.errors import BadInputError
from app.language_models.service import list_drafter_options, list_models
from app.runs.models import Run
from app.runs.options import DeclaredOption, Fieldset, get_options
from app.runs.schemas import DecodingSpec, RunSpec
from app.web.http.schemas import describe_fault
from app.web.ui.display import label_field, pair_options
from app.web.ui.units import format_exact
from evaluation.decisions import MARGIN

BASIC = frozenset({"target", "dataset", "limit", "n", "budget_s"})
"""The options that a form shows at once."""
TERMS_OF_FIELDS = {"target": "registry key", "drafter": "drafter", "draft_length": "goodput", "acceptance": "coupled"}
"""The term of app/web/ui/display.py that is explained behind the label."""
VERBATIM = ("prompt", "test")  # not stripped: only CR LF becomes LF
Choices = Sequence[tuple[str, str]]  # value and text of each
S = TypeVar("S", bound=DecodingSpec)


@dataclass(frozen=True)
class FormField:
    """One option as a field of a form: a checkbox, a select of `choices`, or a text field with `suggestions`."""

    name: str
    label: str
    hint: str
    fieldset: Fieldset
    checkbox: bool = False
    choices: Choices = ()
    suggestions: Choices = ()
    wide: bool = False
    word: str = ""  # of app/web/ui/display.py, explained behind the label
    advanced: bool = False  # folded, because the default suits most people
    attributes: dict[str, str] = field(default_factory=dict)


def build_form_fields(kind: type[DecodingSpec], choices: Mapping[str, Choices] | None = None) -> list[FormField]:
    """A field for each option of the specification, in the order of the form.

    `choices` offers these values for an option in place of those that it declares.
    """
    suggestions, choices = _list_suggestions(), {"drafter": list_drafter_options(), **(choices or {})}
    return [
        _build_form_field(
            option,
            choices.get(option.name) or pair_options(option.choices),
            suggestions.get(option.name, ()),
        )
        for option in _sort_options(kind)
    ]


def get_field_labels(kind: type[DecodingSpec]) -> dict[str, str]:
    """What a form and its errors call each option, in the order of the form."""
    return {option.name: option.form_label for option in _sort_options(kind)}


def parse_form(kind: type[S], form: Mapping[str, str], labels: Mapping[str, str]) -> tuple[S | None, dict[str, str]]:
    """(specification, {}), or (None, a sentence for each invalid field; "" holds the one about no single field)."""
    try:
        return kind.model_validate(_parse_values(kind, form)), {}
    except ValidationError as error:
        return None, _describe_errors(error, labels)


def map_field_error(fault: BadInputError, labels: Mapping[str, str]) -> dict[str, str]:
    """The error as `parse_form` returns it: its sentence under the name of its field."""
    name = fault.field if fault.field in labels else ""
    return {name or "": label_field(str(fault), name, labels[name]) if name else str(fault)}


def build_form_values(kind: type[DecodingSpec], run: Run | None = None) -> dict[str, str]:
    """What the form shows at first: the defaults, or an earlier run's configuration."""
    shown = dict.fromkeys(kind.model_fields, "")
    for name, info in kind.model_fields.items():
        if not info.is_required() and info.default not in (None, ()):
            shown[name] = _format_value(info.default)
    if run is not None:
        for name in kind.model_fields:
            value = getattr(run, name, None)
            if isinstance(value, str | int | float):
                shown[name] = _format_value(value)
        if kind is RunSpec:
            shown["dataset"], shown["name"] = run.dataset.name, ""
            if run.n_tasks + len(run.excluded) < run.dataset.n_tasks:
                shown["task_ids"] = " ".join(t.task.task_id for t in run.tasks)
    return shown


def parse_budget(text: str | None) -> float | None:
    """The seconds in the address of a page that reads figures at a budget; None for none. Raises BadInputError."""
    return _parse_number(text, "budget", "a number of seconds above 0, such as 5", sys.float_info.max) if text else None


def parse_margin(text: str | None) -> float:
    """The margin as a share of the tasks, from points in the address of a page. Raises BadInputError."""
    return _parse_number(text, "margin", "points above 0, at most 100, such as 5", 100) / 100 if text else MARGIN


def _parse_number(text: str, name: str, wanted: str, maximum: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= maximum:
        raise BadInputError(f"{name} is {text[:40]!r}: give {wanted}", name)
    return value


def _sort_options(kind: type[DecodingSpec]) -> list[DeclaredOption]:
    return sorted(get_options(kind).values(), key=lambda option: list(Fieldset).index(option.fieldset))


def _list_suggestions() -> dict[str, Choices]:
    """What the browser suggests while one types, by option."""
    models = [(model.ref, model.title) for model in list_models()]
    return {
        "target": models,
        "draft_length": [(value, "") for value in ("goodput", "bass", "fixed:4", "fixed:8")],
    }


def _build_form_field(option: DeclaredOption, choices: Choices, suggestions: Choices) -> FormField:
    attributes = {"autocomplete": "off"}
    if option.type in (int, float):
        attributes["inputmode"] = "numeric" if option.type is int else "decimal"
    elif suggestions or option.type is tuple:
        attributes["spellcheck"] = "false"
    if suggestions:
        attributes["list"] = f"suggestions-{option.name}"
    hint = f"{option.help[:1].upper()}{option.help[1:]}."
    return FormField(
        name=option.name,
        label=option.form_label,
        hint=f"{hint} Separate several by spaces." if option.type is tuple else hint,
        fieldset=option.fieldset,
        checkbox=option.type is bool,
        choices=choices,
        suggestions=suggestions,
        wide=option.type is tuple,
        word=TERMS_OF_FIELDS.get(option.name, ""),
        advanced=option.name not in BASIC,
        attributes=attributes,
    )


def _parse_values(kind: type[S], form: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, info in kind.model_fields.items():
        if name in form:
            # Browsers send line ends of a textarea as CR LF.
            text = form[name].replace("\r\n", "\n") if name in VERBATIM else form[name].strip()
            if text or info.is_required() or info.default is not None:  # an empty optional field is not given
                values[name] = text
    for name, option in get_options(kind).items():
        if option.type is bool:
            values.setdefault(name, "false")  # a browser sends only checkboxes that are ticked
        elif option.type is tuple and name in values:
            values[name] = tuple(re.findall(r"[^\s,]+", values[name]))
    return values


def _describe_errors(error: ValidationError, labels: Mapping[str, str]) -> dict[str, str]:
    sentences: dict[str, str] = {}
    for fault in error.errors():
        if fault["loc"]:
            name = str(fault["loc"][0])
            sentences.setdefault(name, describe_fault(labels.get(name, name), fault))
            continue
        # An error of the whole specification (the sampler's) begins with the name of its field.
        text = fault["msg"].removeprefix("Value error, ")
        for name, said in map_field_error(BadInputError(text, text.split(" ", 1)[0]), labels).items():
            sentences.setdefault(name, said)
    return sentences


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else ""
    return format_exact(value) if isinstance(value, float) else str(value)
