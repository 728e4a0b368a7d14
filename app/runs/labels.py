"""The short labels by which charts and tables tell runs apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.runs.models import Run
from app.runs.options import DeclaredOption, get_options
from app.runs.schemas import RunOptions
from app.web.ui.display import shorten_model

ROOM = 23  # characters of a label beside a curve
SHORT = 10  # characters of a name that stays in front of the settings

_WORDS: Mapping[str, Callable[[Any], str]] = {
    "target": shorten_model,
    "drafter": lambda value: "no drafter" if value == "none" else str(value),
    "n": lambda value: f"n = {value}",
    "temperature": lambda value: f"T {value:g}",
    "seed": lambda value: f"seed {value}",
    "weights": str,
    "budget_s": lambda value: f"{value:g} s",
}


def list_setting_words(run: Run) -> tuple[str, ...]:
    """Each option of the run in words, in the order in which options are declared."""
    return tuple(format_setting(option, getattr(run, name)) for name, option in get_options(RunOptions).items())


def format_setting(option: DeclaredOption, value: Any) -> str:
    """A setting in the fewest words that still say which one it is."""
    short = _WORDS.get(option.name)
    return short(value) if short else f"{option.label.lower()} {option.format_value(value)}"


def label_runs(runs: Sequence[Run]) -> list[str]:
    """A distinct label for each run, as `shorten_labels` makes them."""
    return shorten_labels([run.name for run in runs], [list_setting_words(run) for run in runs])


def shorten_labels(names: Sequence[str], settings: Sequence[tuple[str, ...]]) -> list[str]:
    """A label for each run: what of its name is not in all names (`model, drafter, n = 8`).

    Runs whose labels begin alike get the settings in which they differ instead, then in front their seed or a number.
    `settings` are the `list_setting_words` of each run.
    """
    labels = _find_differing_parts(names)
    options = list(get_options(RunOptions))
    seed, drafter = options.index("seed"), options.index("drafter")
    alike = [run for group in _find_equal_labels(labels) for run in group]
    # Only the seed differs between repetitions of one configuration.
    differing = [
        place for place in range(len(options)) if place != seed and len({settings[run][place] for run in alike}) > 1
    ]
    if len(differing) < 2 and drafter not in differing:
        differing.append(drafter)  # last: it tells none of them apart
    for run in alike:
        name = [names[run]] if len(names[run]) <= SHORT else []
        labels[run] = ", ".join([*name, *(settings[run][place] for place in differing)])
    for alike in _find_equal_labels(labels):
        if len({settings[run][seed] for run in alike}) > 1:
            for run in alike:
                labels[run] = f"{settings[run][seed]}, {labels[run]}"
    for alike in _find_equal_labels(labels):
        for number, run in enumerate(alike, 1):
            labels[run] = f"({number}) {labels[run]}"
    return labels


def _find_differing_parts(names: Sequence[str]) -> list[str]:
    parts = [name.split(", ") for name in names]
    if len({len(words) for words in parts}) > 1:
        return list(names)
    kept = [place for place, words in enumerate(zip(*parts, strict=True)) if len(set(words)) > 1]
    short = [", ".join(_format_name_part(words[place]) for place in kept) for words in parts]
    return short if kept and len(set(short)) == len(names) else list(names)


def _format_name_part(part: str) -> str:
    if part == "none":
        return "no drafter"
    return shorten_model(part) if "/" in part else part.removeprefix("weights ")


def _find_equal_labels(labels: Sequence[str]) -> list[list[int]]:
    """Groups of two or more places whose labels are equal in the characters that are shown."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for run, label in enumerate(labels):
        groups[label[:ROOM]].append(run)
    return [group for group in groups.values() if len(group) > 1]
