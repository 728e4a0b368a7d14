"""A specification as a web form: every field's fault at once, and nothing the user typed is lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from app.runs.models import Run
from app.runs.schemas import DecodingSpec, RunSpec
from app.schemas import bad_input

VERBATIM = ("prompt", "test")  # sent byte for byte, so blanks at the ends stay
OPTIONAL = ("limit", "time_limit_s", "suffix")  # left empty, they are not given
S = TypeVar("S", bound=DecodingSpec)


def parse_form(kind: type[S], form: Mapping[str, str]) -> tuple[S | None, dict[str, str]]:
    """(specification, {}), or (None, a sentence for each field at fault; "" for what concerns no single field)."""
    values: dict[str, Any] = {}
    for name in kind.model_fields:
        if name in form:
            # Browsers send line ends of a textarea as CR LF.
            text = form[name].replace("\r\n", "\n") if name in VERBATIM else form[name].strip()
            if text or name not in OPTIONAL:
                values[name] = text
    if "task_ids" in values:
        values["task_ids"] = tuple(re.findall(r"[^\s,]+", values["task_ids"]))
    try:
        return kind.model_validate(values), {}
    except ValidationError as error:
        return None, _sentences(kind, error)


def as_form(kind: type[DecodingSpec], run: Run | None = None) -> dict[str, str]:
    """What the form shows at first: the defaults, or an earlier run's configuration."""
    shown = dict.fromkeys(kind.model_fields, "")
    for name, field in kind.model_fields.items():
        if not field.is_required() and field.default not in (None, ()):
            shown[name] = _text(field.default)
    if run is not None:
        for name in kind.model_fields:
            value = getattr(run, name, None)
            if isinstance(value, str | int | float):
                shown[name] = _text(value)
        if kind is RunSpec:
            shown["dataset"], shown["name"] = run.dataset.name, ""
            if run.n_tasks + len(run.excluded) < run.dataset.n_tasks:
                shown["task_ids"] = " ".join(t.task.task_id for t in run.tasks)
    return shown


def _sentences(kind: type[DecodingSpec], error: ValidationError) -> dict[str, str]:
    sentences: dict[str, str] = {}
    for fault in error.errors():
        alone = ValidationError.from_exception_data(
            error.title,
            [{"type": fault["type"], "loc": fault["loc"], "input": fault["input"], "ctx": fault.get("ctx", {})}],
        )
        sentence = str(bad_input(alone))
        # A fault of the whole configuration (the engine's) names its field in its first word.
        field = str(fault["loc"][0]) if fault["loc"] else sentence.split(" ", 1)[0]
        sentences.setdefault(field if field in kind.model_fields else "", sentence)
    return sentences


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else ""
    return f"{value:g}" if isinstance(value, float) else str(value)
