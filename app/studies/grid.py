"""Arms from lists of values: every combination, but for those that are impossible or decode as another one does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from app.core.errors import BadInputError
from app.runs.options import get_options
from app.runs.schemas import ArmOptions
from app.studies.schemas import MAX_ARMS, MIN_ARMS, ArmSpec
from app.web.http.schemas import to_bad_input

MAX_COMBINATIONS = 1000
# Options that do nothing where another one has this value.
WITHOUT_EFFECT = (("drafter", "none", ("draft_length", "acceptance")), ("temperature", 0.0, ("top_p",)))
Values = Mapping[str, Sequence[Any]]


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
