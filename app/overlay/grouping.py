"""Runs with the same value of one option as one line: a mean over the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import BadInputError
from app.runs.labels import REPEATED, labels_of_runs, word
from app.runs.models import Run
from app.runs.options import options_of
from app.runs.schemas import RunOptions
from decoding.suggest import one_of


@dataclass(frozen=True, slots=True)
class Group:
    """One line of the overlay. A run alone is a group of one."""

    key: str
    label: str
    members: tuple[int, ...]  # the places of its runs
    varies: tuple[str, ...] = ()  # the labels of the options in which its runs differ


def field_of(text: str | None) -> str | None:
    """The option to group by; None for none. Raises BadInputError for one that runs do not have."""
    if not text:
        return None
    options = options_of(RunOptions)
    if text not in options:
        raise BadInputError(f"group is {text[:40]!r}: {one_of(text[:40], list(options))}", "group")
    return text


def groups(runs: Sequence[Run], letters: Sequence[str], field: str | None) -> list[Group]:
    """The lines, beginning with the first run's: a run each, or the runs with each value of the option `field`."""
    if field is None:
        labels = labels_of_runs(runs)
        return [Group(*parts, (place,)) for place, parts in enumerate(zip(letters, labels, strict=True))]
    option = options_of(RunOptions)[field]
    members: dict[object, list[int]] = {}
    for place, run in enumerate(runs):
        members.setdefault(getattr(run, field), []).append(place)
    made = []
    for number, (value, places) in enumerate(members.items(), start=1):
        varies = tuple(label.lower() for _, label in fields_that_differ([runs[place] for place in places]))
        made.append(Group(str(number), word(option, value), tuple(places), varies))
    return made


def fields_that_differ(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """(name, label) of the options in which these runs differ."""
    return [
        (name, option.label)
        for name, option in options_of(RunOptions).items()
        if len({getattr(run, name) for run in runs}) > 1
    ]


def unbalanced(runs: Sequence[Run], field: str, found: Sequence[Group]) -> list[str]:
    """The labels of the options, seed apart, of which the groups do not hold the same values equally often.

    The means then differ by more than the option that they are grouped by.
    """

    def shares(name: str, group: Group) -> dict[object, float]:
        values = [getattr(runs[place], name) for place in group.members]
        return {value: values.count(value) / len(values) for value in values}

    return [
        label.lower()
        for name, label in fields_that_differ(runs)
        if name not in (field, REPEATED) and any(shares(name, group) != shares(name, found[0]) for group in found)
    ]
