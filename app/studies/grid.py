"""The arms of a study: from lists of values, and from presets, which answer a common question."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from app.core.errors import BadInputError
from app.language_models.service import list_cached_references, list_models
from app.runs.options import get_options
from app.runs.schemas import ArmOptions
from app.studies.schemas import MAX_ARMS, MIN_ARMS, ArmSpec
from app.web.http.schemas import to_bad_input
from app.web.ui.units import format_count
from decoding.suggest import suggest_one_of

MAX_COMBINATIONS = 1000
BATCH = 8  # samples per task where a preset does not vary them
# Options that do nothing where another one has this value.
WITHOUT_EFFECT = (("drafter", "none", ("draft_length", "acceptance")), ("temperature", 0.0, ("top_p",)))
Values = Mapping[str, Sequence[Any]]
Options = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """The arms, and a sentence for each combination that was left out."""

    arms: tuple[ArmSpec, ...]
    left_out: tuple[str, ...]


def build_grid(values: Values, base_options: Sequence[Mapping[str, Any]] = ({},)) -> Grid:
    """Each of `base_options` with every combination of `values`; both name options of ArmOptions.

    Combinations are left out if they are invalid although each value is valid in another one, and if they
    decode as an earlier one does. Raises BadInputError for a value that no combination accepts, and unless 2 to 32 arms
    remain.
    """
    _refuse_too_many(math.prod(map(len, values.values())) * len(base_options), MAX_COMBINATIONS, "combinations")
    combinations = [
        {**base, **dict(zip(values, chosen, strict=True))}
        for base in base_options
        for chosen in itertools.product(*values.values())
    ]
    describe = partial(_describe_combination, combinations)
    arms: dict[str, tuple[dict[str, Any], ArmSpec]] = {}
    refused: list[tuple[dict[str, Any], BadInputError]] = []
    left_out = []
    for combination in combinations:
        try:
            arm = ArmSpec.model_validate(combination)
        except ValidationError as error:
            refused.append((combination, to_bad_input(error)))
            continue
        first, _ = arms.setdefault(_build_equivalence_key(arm), (combination, arm))
        if first is not combination:
            left_out.append(f"{describe(combination)} is left out: it decodes as {describe(first)} does")
    for combination, refusal in refused:
        field = refusal.field or ""
        if not any(accepted.get(field) == combination.get(field) for accepted, _ in arms.values()):
            raise refusal
        left_out.append(f"{describe(combination)} is left out: {refusal}")
    _refuse_too_many(len(arms), MAX_ARMS, "arms")
    if len(arms) < MIN_ARMS:
        why = f" ({left_out[0]})" if left_out else ""
        raise BadInputError(f"one arm is not a study: give several values of an option, as n = 1, 4, 8{why}", "arms")
    return Grid(tuple(arm for _, arm in arms.values()), tuple(left_out))


def _refuse_too_many(number: int, most: int, what: str) -> None:
    if number > most:
        raise BadInputError(f"the values make {number} {what}: give fewer of them, {most} {what} at most", "arms")


def _build_equivalence_key(arm: ArmSpec) -> str:
    """A text that is equal for arms that decode in the same way."""
    without = {name for option, value, names in WITHOUT_EFFECT if getattr(arm, option) == value for name in names}
    return arm.model_dump_json(exclude=without)


def _describe_combination(combinations: Sequence[Mapping[str, Any]], combination: Mapping[str, Any]) -> str:
    """The values in which the combination differs from others."""
    options = get_options(ArmOptions)
    return ", ".join(
        f"{name.replace('_', ' ')} {options[name].format_value(value)}"
        for name, value in combination.items()
        if any(other.get(name) != value for other in combinations)
    )


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
