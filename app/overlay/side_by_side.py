"""One task in several runs: the samples of each with equal ones together, and two of them to compare line by line."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Literal

from app.errors import BadInputError
from app.overlay.grouping import Group
from app.overlay.line_diff import LineDiff, line_diff
from app.runs import presentation as shown
from app.runs.models import Run, RunTask
from app.samples.models import Sample

View = Literal["program", "raw"]
VIEWS: dict[View, str] = {"program": "As judged", "raw": "As the model wrote it"}
GROUPS_SHOWN = 3  # different texts of one run, unless the reader asks for all
CHARACTERS_SHOWN = 4000  # of one text; its own page has the rest
MOST_SAMPLES = 2000  # of all runs together: their texts are in memory at once
CHOICES = 100  # samples that a list offers for the line diff


@dataclass(frozen=True)
class Alike(shown.SampleGroup):
    """Samples of one run with the same text and verdict."""

    letter: str
    text: str
    also: tuple[str, ...]  # the letters of other runs that have the text

    @property
    def reference(self) -> str:
        """The name of the sample shown, as in addresses: the run's letter and the sample's index."""
        return f"{self.letter}.{self.best.row.index}"

    @property
    def label(self) -> str:
        """What a list calls that sample."""
        alike = f", {len(self.members)} alike" if len(self.members) > 1 else ""
        which = ", chosen" if self.best.chosen else ""
        return f"{self.letter}, sample {self.best.row.index}: {self.best.sign.name}{which}{alike}"


@dataclass(frozen=True, slots=True)
class Column:
    """One run at the task; `row` is None where the run does not have it. The chosen sample's text comes first."""

    letter: str
    label: str
    run: Run
    row: RunTask | None
    groups: Sequence[Alike]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two samples by their references, and their lines."""

    a: str
    b: str
    diff: LineDiff


def check_size(runs: Iterable[Run]) -> None:
    """Raises BadInputError where a task has more samples in these runs than a page can read."""
    if (most := sum(run.n for run in runs)) > MOST_SAMPLES:
        raise BadInputError(
            f"these runs have {most:,} samples of each task: choose runs with at most {MOST_SAMPLES:,} together", "runs"
        )


def columns(
    lines: Sequence[Group], runs: Sequence[Run], rows: Mapping[uuid.UUID, RunTask], budget_s: float, view: View
) -> list[Column]:
    """A column for each run, in their order; a sample that did not finish within `budget_s` is not finished."""
    members: defaultdict[tuple[str, str, object], list[shown.SampleSign]] = defaultdict(list)
    letters: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for line, run in zip(lines, runs, strict=True):
        for sign in shown.in_finish_order(rows[run.id].samples if run.id in rows else (), budget_s):
            text = text_of(sign.row, view)
            members[line.key, text, sign.sign].append(sign)
            letters[text][line.key] = None
    groups = [
        Alike(alike, letter, text, tuple(other for other in letters[text] if other != letter))
        for (letter, text, _), alike in members.items()
    ]
    groups.sort(key=lambda group: not group.best.chosen)
    return [
        Column(line.key, line.label, run, rows.get(run.id), [group for group in groups if group.letter == line.key])
        for line, run in zip(lines, runs, strict=True)
    ]


def text_of(sample: Sample, view: View) -> str:
    """The sample's program, or its text as the model wrote it; that too where no program was taken from it."""
    return sample.raw if view == "raw" or sample.program is None else sample.program


def choices(made: Sequence[Column]) -> list[Alike]:
    """One sample of each different text of each run, the first texts of all runs before the second ones."""
    by_place = chain.from_iterable(zip_longest(*(column.groups for column in made)))
    found = [group for group in by_place if group is not None]
    return sorted(found[:CHOICES], key=lambda group: group.letter)


def pair(made: Sequence[Column], a: str | None, b: str | None, view: View) -> Pair | None:
    """The two samples to compare: those named, else the chosen ones of the baseline and of the first run whose verdict
    differs from it. None where fewer than two runs have samples. Raises BadInputError for a name that no sample has."""
    heads = [column.groups[0] for column in made if column.groups]
    if len(heads) < 2:
        return None
    first, *others = heads
    other = next((group for group in others if group.best.sign != first.best.sign), others[0])
    samples = {
        f"{group.letter}.{member.row.index}": member.row
        for column in made
        for group in column.groups
        for member in group.members
    }
    chosen = (a or first.reference, b or other.reference)
    for name, field in zip(chosen, ("a", "b"), strict=True):
        if name not in samples:
            raise BadInputError(f"{field} is {name[:40]!r}: choose a sample from the list, such as A.0", field)
    return Pair(*chosen, line_diff(*(text_of(samples[name], view) for name in chosen)))
