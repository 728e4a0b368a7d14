"""The forms of a completion and of a race. A race has the same form twice; the second part holds only its changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from app.completions.schemas import CompletionSpec
from app.completions.service import typed_test
from app.runs.forms import FormField, as_form, form_fields, labels_of, parse_form
from app.runs.models import Run, RunTask

Errors = dict[str, str]

EXAMPLE = {
    "target": "qwen2.5-coder-0.5b",
    "prompt": 'def is_palindrome(text: str) -> bool:\n    """Whether text reads the same backwards."""\n',
    "temperature": "0.6",
    "max_tokens": "256",
    "prompt_mode": "auto",  # in completion mode an instruct model may answer a signature with nothing
}
LABELS = {
    "prompt": "Prompt",
    "test": "Test",
    "entry_point": "Function under test",
    **labels_of(CompletionSpec),
}
FIRST = ("target", "n", "budget_s")  # the others are folded
FIRST_OF_RACE = ("target", "drafter", "n", "budget_s")
MODES = (
    ("auto", "auto: chat if the model has a chat template, else completion"),
    ("chat", "chat: ask for the code"),
    ("completion", "completion: continue the text"),
)
_VALID = {name: EXAMPLE[name] for name in ("target", "prompt")}

SECOND = "b_"  # begins the names of B's fields; A's have the names of the options
SHARED = ("prompt", "test", "entry_point", "budget_s")
"""What the two sides of a race have in common: one prompt, judged by one test, on one clock."""
AS_A = "as A"
_OWN = tuple(name for name in labels_of(CompletionSpec) if name not in SHARED)
RACE_LABELS = {
    **{name: LABELS[name] for name in SHARED},
    **{name: f"A: {LABELS[name]}" for name in _OWN},
    **{SECOND + name: f"B: {LABELS[name]}" for name in _OWN},
}


def fields(first: Sequence[str] = FIRST) -> tuple[list[FormField], list[FormField]]:
    """The options of a completion: `first` in sight, the others folded."""
    by_name = {field.name: field for field in form_fields(CompletionSpec, {"prompt_mode": MODES})}
    return [by_name.pop(name) for name in first], list(by_name.values())


def parse(form: Mapping[str, str], check: Callable[[CompletionSpec], object]) -> tuple[CompletionSpec | None, Errors]:
    """As runs.forms.parse_form, for a completion."""
    return parse_form(CompletionSpec, form, LABELS, _VALID, check)


def values(run: Run | None = None, row: RunTask | None = None) -> dict[str, str]:
    """What the form shows at first: an example, or an earlier completion."""
    if run is None or row is None:
        return {**as_form(CompletionSpec), **EXAMPLE}
    task = row.task
    texts = {"prompt": task.prompt, "test": typed_test(task), "entry_point": task.entry_point}
    return {**as_form(CompletionSpec, run), **texts}


def second_fields(of_a: list[FormField]) -> list[FormField]:
    """The same options for B, each empty for the value of A."""
    return [
        replace(
            field,
            name=SECOND + field.name,
            hint="",
            word="",  # explained at A's field
            choices=[("", AS_A), *field.choices] if field.choices else (),
            suggestions=(),  # the list is there once, at A's field
            attributes={**field.attributes, "placeholder": AS_A},
        )
        for field in of_a
        if field.name not in SHARED
    ]


def second_values(of_a: Mapping[str, str], of_b: Mapping[str, str] | None = None) -> dict[str, str]:
    """B's fields where B is as `of_b`: empty where it is as A. By default it differs in one thing, the drafter."""
    other = of_b or {**of_a, "drafter": "sibling" if of_a["drafter"] == "none" else "none"}
    return {SECOND + name: "" if other[name] == of_a[name] else other[name] for name in _OWN}


def parse_race(
    form: Mapping[str, str], check: Callable[[CompletionSpec], object]
) -> tuple[tuple[CompletionSpec, CompletionSpec] | None, Errors]:
    """Both specifications, or None and the errors of all fields; a fault that B has from A is said once, at A."""
    a, errors = parse(form, check)
    different = {name: form[SECOND + name] for name in _OWN if form.get(SECOND + name, "").strip()}
    b, of_b = parse({**form, **different}, check)
    for name, text in of_b.items():
        if errors.get(name) != text:
            errors[SECOND + name if name in _OWN else name] = text
    return ((a, b) if a and b else None), errors
