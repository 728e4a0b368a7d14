"""A run's specification as a web form: every field's fault at once, and nothing the user typed is lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from app.runs.models import Run
from app.runs.schemas import RunSpec, bad_input

OPTIONAL = ("limit", "time_limit_s", "name")  # left empty, they mean their default
FIELDS = tuple(RunSpec.model_fields)


def parse_form(form: Mapping[str, str]) -> tuple[RunSpec | None, dict[str, str]]:
    """(specification, {}) or (None, a sentence for each field at fault)."""
    values: dict[str, Any] = {name: form[name].strip() for name in FIELDS if name in form}
    values["task_ids"] = tuple(re.split(r"[\s,]+", values["task_ids"])) if values.get("task_ids") else ()
    for name in OPTIONAL:
        if not values.get(name):
            values.pop(name, None)
    try:
        return RunSpec.model_validate(values), {}
    except ValidationError as error:
        return None, _sentences(error)


def as_form(source: RunSpec | Run | None) -> dict[str, str]:
    """What the form shows at first: the defaults, or an earlier run's configuration."""
    shown = dict.fromkeys(FIELDS, "")
    for name, field in RunSpec.model_fields.items():
        if not field.is_required() and field.default not in (None, ()):
            shown[name] = _text(field.default)
    if source is not None:
        for name in FIELDS:
            value = getattr(source, name, None)
            if isinstance(value, str | int | float):
                shown[name] = _text(value)
    if isinstance(source, Run):
        shown["dataset"], shown["name"] = source.dataset.name, ""
        if source.n_tasks + len(source.excluded) < source.dataset.n_tasks:
            shown["task_ids"] = " ".join(t.task.task_id for t in source.tasks)
    return shown


def _sentences(error: ValidationError) -> dict[str, str]:
    sentences: dict[str, str] = {}
    for fault in error.errors():
        alone = ValidationError.from_exception_data(
            error.title,
            [{"type": fault["type"], "loc": fault["loc"], "input": fault["input"], "ctx": fault.get("ctx", {})}],
        )
        sentence = str(bad_input(alone))
        # A fault of the whole configuration (the engine's) names its field in its first word.
        field = str(fault["loc"][0]) if fault["loc"] else sentence.split(" ", 1)[0]
        sentences.setdefault(field if field in FIELDS else "", sentence)
    return sentences


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
