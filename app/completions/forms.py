"""The form of a completion."""

from __future__ import annotations

from dataclasses import replace

from app.completions.schemas import CompletionSpec
from app.completions.service import restore_typed_test
from app.runs.forms import FormField, build_form_fields, build_form_values, get_field_labels
from app.runs.models import Run, RunTask
from evaluation.languages import registry

EXAMPLE = {
    "target": "qwen2.5-coder-0.5b",
    "prompt": 'def is_palindrome(text: str) -> bool:\n    """Whether text reads the same backwards."""\n',
    "temperature": "0.6",
    "max_tokens": "256",
    "prompt_mode": "auto",  # in completion mode an instruct model may answer a signature with nothing
}
AGAINST_PLAIN = "against_plain"
"""The box that asks for plain decoding beside the completion."""
LANGUAGES = tuple(registry.LABELS.items())
LABELS = {
    "prompt": "Prompt",
    "language": "Language",
    "test": "Test",
    "entry_point": "Function under test",
    **get_field_labels(CompletionSpec),
}
VISIBLE_FIELDS = ("target", "n", "budget_s")  # the others are folded
MODES = (
    ("auto", "auto: chat if the model has a chat template, else completion"),
    ("chat", "chat: ask for the code"),
    ("completion", "completion: continue the text"),
)


def build_fields() -> tuple[list[FormField], list[FormField]]:
    """The options of a completion: those in sight, and the folded ones."""
    by_name = {field.name: field for field in build_form_fields(CompletionSpec, {"prompt_mode": MODES})}
    first = [by_name.pop(name) for name in VISIBLE_FIELDS]
    first[1:] = [replace(field, hint="") for field in first[1:]]  # what a run says of them is about its many tasks
    return first, list(by_name.values())


def get_initial_values(run: Run | None = None, row: RunTask | None = None) -> dict[str, str]:
    """What the form shows at first: an example, or an earlier completion."""
    if run is None or row is None:
        return {**build_form_values(CompletionSpec), **EXAMPLE}
    task = row.task
    texts = {"prompt": task.prompt, "test": restore_typed_test(task), "entry_point": task.entry_point}
    texts["language"] = task.language
    return {**build_form_values(CompletionSpec, run), **texts}
