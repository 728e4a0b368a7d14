"""A specification as a web form: every field's fault at once, and nothing the user typed is lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from app.errors import BadInput
from app.runs.models import Run
from app.runs.schemas import DecodingSpec, RunSpec
from app.ui.form_errors import labelled, sentence

VERBATIM = ("prompt", "test")  # sent byte for byte, so blanks at the ends stay
OPTIONAL = ("limit", "time_limit_s", "suffix")  # left empty, they are not given
LABELS = {
    "target": "Target model",
    "dataset": "Dataset",
    "limit": "First tasks only",
    "task_ids": "These tasks only",
    "n": "Samples per task",
    "budget_s": "Budget per task, seconds",
    "max_tokens": "Max tokens per sample",
    "temperature": "Temperature",
    "top_p": "Top-p",
    "seed": "Seed",
    "drafter": "Drafter",
    "draft_length": "Draft length",
    "acceptance": "Acceptance",
    "prompt_mode": "Prompt mode",
    "dtype": "Number format",
    "device": "Device",
    "name": "Name",
    "time_limit_s": "Time limit, seconds",
    "throughput": "Several tasks in one batch",
}
"""What the form calls each field of a run, and what its errors call it."""
S = TypeVar("S", bound=DecodingSpec)


def parse_form(
    kind: type[S],
    form: Mapping[str, str],
    labels: Mapping[str, str],
    sound: Mapping[str, str],
    check: Callable[[S], object],
) -> tuple[S | None, dict[str, str]]:
    """(specification, {}), or (None, a sentence for each field at fault; "" for what concerns no single field).

    `check` raises BadInput for what the schema cannot see, such as a model that does not exist. A field at fault is
    given its default, or its value in `sound` where it has none, and the rest is looked at again: so all faults are
    told at once.
    """
    values, errors = _given(kind, form), dict[str, str]()
    while True:
        try:
            spec = kind.model_validate(values)
            check(spec)
            return (None, errors) if errors else (spec, {})
        except ValidationError as error:
            found = _sentences(error, labels)
        except BadInput as fault:
            found = told(fault, labels)
        fresh = {field: text for field, text in found.items() if field not in errors}
        errors.update(fresh)
        if not fresh or "" in fresh:
            return None, errors
        if "dataset" in fresh:
            fresh["task_ids"] = ""  # they are those of the dataset that is not there
        values = {name: value for name, value in values.items() if name not in fresh}
        values |= {name: sound[name] for name in fresh if name in sound}


def told(fault: BadInput, labels: Mapping[str, str]) -> dict[str, str]:
    """The fault of one field as `parse_form` tells it."""
    field = fault.field if fault.field in labels else ""
    return {field or "": labelled(str(fault), field, labels[field]) if field else str(fault)}


def _given(kind: type[S], form: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in kind.model_fields:
        if name in form:
            # Browsers send line ends of a textarea as CR LF.
            text = form[name].replace("\r\n", "\n") if name in VERBATIM else form[name].strip()
            if text or name not in OPTIONAL:
                values[name] = text
    if "task_ids" in values:
        values["task_ids"] = tuple(re.findall(r"[^\s,]+", values["task_ids"]))
    return values


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


def _sentences(error: ValidationError, labels: Mapping[str, str]) -> dict[str, str]:
    sentences: dict[str, str] = {}
    for fault in error.errors():
        if fault["loc"]:
            field = str(fault["loc"][0])
            sentences.setdefault(field, sentence(labels.get(field, field), fault))
            continue
        # A fault of the whole configuration (the engine's) names its field in its first word.
        text = fault["msg"].removeprefix("Value error, ")
        field = text.split(" ", 1)[0]
        field = field if field in labels else ""
        sentences.setdefault(field, labelled(text, field, labels[field]) if field else text)
    return sentences


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else ""
    return f"{value:g}" if isinstance(value, float) else str(value)
