"""The short label of a run, on every chart and in every table that shows several runs."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.runs.models import Run
from app.runs.options import DeclaredOption, options_of
from app.runs.schemas import RunOptions
from app.web.ui.display import short_model

ROOM = 23  # characters of a label beside a curve
SHORT = 10  # characters of a name that stays in front of the settings
REPEATED = "seed"
"""The option in which repetitions of one configuration differ."""
ALWAYS = "drafter"
"""The option that stands in every label made of settings."""

_WORDS: Mapping[str, Callable[[Any], str]] = {
    "target": short_model,
    "drafter": lambda value: "no drafter" if value == "none" else str(value),
    "n": lambda value: f"n = {value}",
    "temperature": lambda value: f"T {value:g}",
    "seed": lambda value: f"seed {value}",
    "budget_s": lambda value: f"{value:g} s",
}


def setting_words(run: Run) -> tuple[str, ...]:
    """Each option of the run in words, in the order in which options are declared."""
    return tuple(word(option, getattr(run, name)) for name, option in options_of(RunOptions).items())


def word(option: DeclaredOption, value: Any) -> str:
    """A setting in the fewest words that still say which one it is."""
    short = _WORDS.get(option.name)
    return short(value) if short else f"{option.label.lower()} {option.text(value)}"


def labels_of_runs(runs: Sequence[Run]) -> list[str]:
    """A distinct label for each run, as `short_labels` makes them."""
    return short_labels([run.name for run in runs], [setting_words(run) for run in runs], [r.created_at for r in runs])


def short_labels(
    names: Sequence[str], settings: Sequence[tuple[str, ...]], created: Sequence[dt.datetime]
) -> list[str]:
    """A label for each run: what of its name is not in all names (`model, drafter, n = 8`).

    Runs whose labels begin alike get the settings in which they differ instead, then their seed, then their time.
    `settings` are the `setting_words` of each run.
    """
    labels = _differing_parts(names)
    options = list(options_of(RunOptions))
    seed = options.index(REPEATED)
    for alike in _alike(labels):
        differing = [
            place
            for place, option in enumerate(options)
            if option == ALWAYS or (option != REPEATED and len({settings[run][place] for run in alike}) > 1)
        ]
        for run in alike:
            name = [names[run]] if len(names[run]) <= SHORT else []
            labels[run] = ", ".join([*name, *(settings[run][place] for place in differing)])
    for alike in _alike(labels):
        if len({settings[run][seed] for run in alike}) > 1:
            for run in alike:
                labels[run] = f"{settings[run][seed]}, {labels[run]}"
    for alike in _alike(labels):
        for run in alike:
            labels[run] = f"{created[run]:%m-%d %H:%M:%S}, {names[run]}"
    return labels


def _differing_parts(names: Sequence[str]) -> list[str]:
    parts = [name.split(", ") for name in names]
    if len({len(words) for words in parts}) > 1:
        return list(names)
    kept = [place for place, words in enumerate(zip(*parts, strict=True)) if len(set(words)) > 1]
    short = [", ".join(_word_of_name(words[place]) for place in kept) for words in parts]
    return short if kept and len(set(short)) == len(names) else list(names)


def _word_of_name(part: str) -> str:
    return "no drafter" if part == "none" else short_model(part) if "/" in part else part


def _alike(labels: Sequence[str]) -> list[list[int]]:
    """The places of labels that are equal in the characters that are shown, two or more at a time."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for run, label in enumerate(labels):
        groups[label[:ROOM]].append(run)
    return [group for group in groups.values() if len(group) > 1]
