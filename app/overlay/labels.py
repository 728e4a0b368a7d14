"""What the pages of an overlay call its runs: a letter, and the name or the settings that tell them apart."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.runs.models import Run
from app.runs.options import DeclaredOption, options_of
from app.runs.schemas import RunOptions
from app.ui.display import short_model

ROOM = 20  # characters of a label beside a curve
LETTERS = (*string.ascii_uppercase, *(f"A{letter}" for letter in string.ascii_uppercase))

_WORDS: Mapping[str, Callable[[Any], str]] = {
    "target": short_model,
    "drafter": lambda value: "no drafter" if value == "none" else str(value),
    "n": lambda value: f"n = {value}",
    "temperature": lambda value: f"T {value:g}",
    "seed": lambda value: f"seed {value}",
    "budget_s": lambda value: f"{value:g} s",
}


@dataclass(frozen=True, slots=True)
class Named:
    """A run's letter, its label beside a curve, and the settings in which it differs from others, in words."""

    letter: str
    label: str
    settings: tuple[str, ...]


def named(runs: Sequence[Run], letters: Sequence[str]) -> list[Named]:
    """A name for each run, in their order. Labels are different where names or settings are."""
    options = options_of(RunOptions)
    differing = [name for name in options if len({getattr(run, name) for run in runs}) > 1]
    settings = [tuple(word(options[name], getattr(run, name)) for name in differing) for run in runs]
    labels = [run.name for run in runs]
    if len({label[:ROOM] for label in labels}) < len(runs) and differing:
        labels = [", ".join(words) for words in settings]
    return [Named(*parts) for parts in zip(letters, labels, settings, strict=True)]


def word(option: DeclaredOption, value: Any) -> str:
    """A setting in the fewest words that still say which one it is."""
    short = _WORDS.get(option.name)
    return short(value) if short else f"{option.label.lower()} {option.text(value)}"
