"""Studies that answer a common question, each declared once: the command line and the page New study offer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.errors import BadInputError
from app.language_models.service import list_cached_references, list_models
from app.studies.grid import Grid, Values, build_grid
from app.web.ui.units import format_count
from decoding.suggest import suggest_one_of

BATCH = 8  # samples per task where a preset does not vary them
Options = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Preset:
    """`arms` returns the options of each arm for a target.

    With `takes_cached_models`, a study without targets compares the cached models.
    """

    question: str
    arms: Callable[[str], list[Options]]
    takes_cached_models: bool = False


def _build_bass_arms(_target: str) -> list[Options]:
    # A single sequence has no siblings: there the drafter looks into the sequence's own text and the prompt.
    return [{"drafter": drafter, "n": n} for n in (1, BATCH) for drafter in ("none", "sibling")]


def _build_drafter_arms(target: str) -> list[Options]:
    draft = find_draft_model(target)
    return [{"drafter": drafter, "n": BATCH} for drafter in ("none", "ngram", "sibling", *([draft] if draft else []))]


PRESETS: Mapping[str, Preset] = {
    "bass": Preset(
        "What does batched speculative decoding gain over regular decoding and over one sequence?", _build_bass_arms
    ),
    "samples": Preset("How many samples?", lambda _: [{"drafter": "sibling", "n": n} for n in (1, 2, 4, 8, 16)]),
    "drafters": Preset("Which drafter?", _build_drafter_arms),
    "models": Preset("Which model?", lambda _: [{"drafter": "sibling", "n": BATCH}], takes_cached_models=True),
}


def build_preset_arms(name: str, targets: Sequence[str], values: Values) -> Grid:
    """The arms of a preset for each target, with every combination of further `values`.

    Raises BadInputError for an unknown preset, a missing target, and an option that the preset itself sets.
    """
    if name not in PRESETS:
        raise BadInputError(f"preset is {name[:60]!r}: {suggest_one_of(name, list(PRESETS))}", "preset")
    preset = PRESETS[name]
    if not targets and preset.takes_cached_models:
        targets = sorted(list_cached_references())
        if len(targets) < 2:
            raise BadInputError(
                f"target is missing: the cache has {format_count(len(targets), 'model')}, two or more can be compared. "
                "Name them, or get one with `bassline models pull`",
                "target",
            )
    if not targets:
        raise BadInputError(f"target is missing: the preset {name} needs a model", "target")
    beginnings = [{"target": target, **options} for target in targets for options in preset.arms(target)]
    for option in values:
        if option in beginnings[0]:
            raise BadInputError(f"{option} is set by the preset {name}: leave it out, or leave out the preset", option)
    return build_grid(values, beginnings)


def find_draft_model(target: str) -> str | None:
    """The smallest cached model of the registry that has the target's family and is smaller; None if there is none."""
    known = {model.ref: model for model in list_models()}
    if target not in known:
        return None
    cached = list_cached_references()
    smaller = [
        model
        for model in known.values()
        if _family(model.ref) == _family(target)
        and model.ref in cached
        and model.n_parameters < known[target].n_parameters
    ]
    return min(smaller, key=lambda model: model.n_parameters).ref if smaller else None


def _family(reference: str) -> str:
    """`qwen2.5-coder` of `qwen2.5-coder-0.5b`."""
    return reference.rpartition("-")[0]
