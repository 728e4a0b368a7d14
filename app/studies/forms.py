"""The form New study: a preset or a grid of values becomes arms; errors are sentences at the fields of the form."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from werkzeug.datastructures import MultiDict

from app.core.context import Context
from app.core.errors import BadInputError
from app.language_models.service import list_cached_references, list_models
from app.runs import service as runs
from app.runs.forms import FormField, build_form_fields, map_field_error, parse_form
from app.runs.options import get_options
from app.runs.quiet import QUIET_LIMIT_S
from app.runs.schemas import ArmOptions, RunSpec
from app.studies import service
from app.studies.grid import PRESETS, Grid, build_grid, build_preset_arms
from app.studies.schemas import StudySpec

SHARED_OPTIONS = ("dataset", "limit", "task_ids", "weak", "budget_s", "seed", "name")
PRESET_OPTIONS = ("drafter", "n")  # a preset sets these itself
LABELS = {name: option.form_label for name, option in get_options(RunSpec).items()} | {
    "race": "Race",
    "preset": "Question",
    "wait_for_quiet": "Wait for a quiet machine",
}
DEFAULTS = {
    "preset": ["samples"],
    "limit": ["40"],
    "drafter": ["none", "sibling"],
    "n": ["1, 8"],
    "dataset": [RunSpec.model_fields["dataset"].default],
    "budget_s": [f"{StudySpec.model_fields['budget_s'].default:g}"],
    "seed": ["0"],
    "wait_for_quiet": ["true"],
}


@dataclass(frozen=True)
class ParsedStudyForm:
    """The result of a form: the specification and its number of tasks, or a message for each invalid field.

    The error under "" is about no single field. `left_out` says which combinations were left out.
    """

    spec: StudySpec | None
    n_tasks: int
    left_out: tuple[str, ...] = ()
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def max_s(self) -> float:
        """Seconds of decoding at most: every task of every arm takes its whole budget."""
        return len(self.spec.arms) * self.n_tasks * self.spec.budget_s if self.spec else 0.0


def get_initial_values() -> MultiDict[str, str]:
    """What the empty form shows: the first cached model, else the first known one, and a small grid."""
    cached = list_cached_references()
    known = [model.ref for model in list_models()]
    values = MultiDict[str, str]()
    for name, defaults in DEFAULTS.items():
        values.setlist(name, defaults)
    values["target"] = next((ref for ref in known if ref in cached), known[0])
    return values


def parse_study_form(ctx: Context, values: MultiDict[str, str]) -> ParsedStudyForm:
    """The study that the form describes, checked as far as that goes without running anything."""
    given = {name: values[name] for name in SHARED_OPTIONS if values.get(name, "").strip()}
    shared, errors = parse_form(RunSpec, {"target": "any", **given}, LABELS)
    arms = Grid((), ())
    try:
        arms = _build_arms(values)
        if shared is None:
            return ParsedStudyForm(None, 0, arms.left_out, errors)
        spec = StudySpec(
            **shared.model_dump(include=set(SHARED_OPTIONS)),
            race="race" in values,
            quiet_limit_s=QUIET_LIMIT_S if "wait_for_quiet" in values else None,
            arms=arms.arms,
        )
        for arm in spec.arms:  # before anything is looked up: an error must not reveal which files exist
            runs.require_allowed_models(ctx, arm.target, arm.drafter)
        tasks = service.resolve_spec(ctx, spec).tasks
    except BadInputError as fault:
        return ParsedStudyForm(None, 0, arms.left_out, _map_error(fault) | errors)
    return ParsedStudyForm(spec, len(tasks), arms.left_out)


def build_shared_fields(datasets: list[str]) -> list[FormField]:
    """The fields of what all arms share."""
    known = {one.name: one for one in build_form_fields(RunSpec, {"dataset": [(name, name) for name in datasets]})}
    hints = {"name": "The name in lists; empty: the models, the dataset and the number of arms."}
    return [replace(known[name], hint=hints.get(name, known[name].hint)) for name in SHARED_OPTIONS]


def build_list_fields() -> list[FormField]:
    """A field for every further option in which arms may differ; it takes several values."""
    skipped = ("target", *PRESET_OPTIONS)
    return [
        replace(
            one,
            hint=f"{one.hint}{' One of ' + ', '.join(value for value, _ in one.choices) + '.' if one.choices else ''}",
            choices=(),
            suggestions=(),
            attributes={"autocomplete": "off", "spellcheck": "false"},
        )
        for one in build_form_fields(RunSpec)
        if one.name in ArmOptions.model_fields and one.name not in skipped
    ]


def list_questions() -> list[tuple[str, str]]:
    """(value, label) of each preset, and of a custom grid."""
    return [
        *((name, preset.question) for name, preset in PRESETS.items()),
        ("", "A question of my own: every combination of the values below"),
    ]


def list_model_choices() -> list[tuple[str, str]]:
    """(reference, whether it has to be fetched first) of the known models."""
    cached = list_cached_references()
    return [(model.ref, "" if model.ref in cached else "is downloaded first") for model in list_models()]


def _build_arms(values: MultiDict[str, str]) -> Grid:
    preset = values.get("preset", "")
    names = [name for name in ArmOptions.model_fields if not (preset and name in PRESET_OPTIONS)]
    given = {name: found for name in names if (found := get_selected_values(values, name))}
    if preset:
        return build_preset_arms(preset, given.pop("target", []), given)
    if "target" not in given:
        raise BadInputError("target is empty: choose a model", "target")
    return build_grid(given)


def get_selected_values(values: MultiDict[str, str], name: str) -> list[str]:
    """All values of an option, of ticked boxes and of texts, each once."""
    return list(dict.fromkeys(word for text in values.getlist(name) for word in re.findall(r"[^\s,]+", text)))


def _map_error(fault: BadInputError) -> dict[str, str]:
    """The sentence under the form's name of the field; one about an arm names the arm too."""
    name = (fault.field or "").rpartition(".")[2]
    return map_field_error(BadInputError(str(fault).removesuffix("."), name), LABELS)
