"""One task in several runs: the samples of each with equal ones together, and two of them to compare line by line."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from app.errors import BadInputError
from app.overlay.grouping import Group
from app.overlay.line_diff import LineDiff, line_diff
from app.runs import presentation as shown
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from app.ui.display import VerdictSign
from decoding.suggest import one_of

View = Literal["program", "raw"]
VIEWS: dict[View, str] = dict(zip(get_args(View), ("As judged", "As the model wrote it"), strict=True))
GROUPS_SHOWN = 3  # different texts of one run, unless the reader asks for all
CHARACTERS_SHOWN = 4000  # of one text; its own page has the rest
MOST_SAMPLES = 2000  # of all runs together: their texts are in memory at once
CHOICES = 100  # samples that a list offers for the line diff


@dataclass(frozen=True, slots=True)
class Alike:
    """Samples of one run with the same text and verdict. `also` are the letters of other runs that have the text."""

    members: tuple[shown.SampleSign, ...]
    text: str
    also: tuple[str, ...] = ()

    @property
    def best(self) -> shown.SampleSign:
        """The one shown: the chosen sample if it is among them, else the first to finish."""
        return next((s for s in self.members if s.chosen), self.members[0])

    @property
    def sign(self) -> VerdictSign:
        """Their verdict."""
        return self.best.sign


@dataclass(frozen=True, slots=True)
class Column:
    """One run at the task; `row` is None where the run does not have it. The chosen sample's text comes first."""

    letter: str
    label: str
    run: Run
    row: RunTask | None
    groups: tuple[Alike, ...]

    @property
    def n_samples(self) -> int:
        """How many samples the groups hold."""
        return sum(len(group.members) for group in self.groups)


@dataclass(frozen=True, slots=True)
class Choice:
    """A sample that can be compared: its reference such as `B.3`, and what a list calls it."""

    reference: str
    label: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Two samples by their references, and their lines."""

    a: str
    b: str
    diff: LineDiff


def parse_view(text: str | None) -> View:
    """Which text of a sample to show. Raises BadInputError."""
    found = next((view for view in VIEWS if view == (text or "program")), None)
    if found is None:
        raise BadInputError(f"text is {str(text)[:40]!r}: {one_of(str(text)[:40], list(VIEWS))}", "text")
    return found


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
    made = []
    for line, run in zip(lines, runs, strict=True):
        row = rows.get(run.id)
        made.append(Column(line.key, line.label, run, row, _alike(row, budget_s, view) if row is not None else ()))
    have: dict[str, list[str]] = {}
    for column in made:
        for text in {group.text for group in column.groups}:
            have.setdefault(text, []).append(column.letter)
    return [
        replace(
            column,
            groups=tuple(
                replace(group, also=tuple(letter for letter in have[group.text] if letter != column.letter))
                for group in column.groups
            ),
        )
        for column in made
    ]


def text_of(sample: Sample, view: View) -> str:
    """The sample's program, or its text as the model wrote it; that too where no program was taken from it."""
    return sample.raw if view == "raw" or sample.program is None else sample.program


def choices(made: Sequence[Column]) -> list[Choice]:
    """One sample of each different text of each run, the first texts of all runs before the second ones."""
    found = []
    for place in range(max((len(column.groups) for column in made), default=0)):
        for column in made:
            if place < len(column.groups):
                found.append(_choice(column, column.groups[place]))
    return sorted(found[:CHOICES], key=lambda choice: choice.reference.split(".")[0])


def pair(made: Sequence[Column], a: str | None, b: str | None, view: View) -> Pair | None:
    """The two samples to compare: those named, else the chosen ones of the baseline and of the first run whose verdict
    differs from it. None where fewer than two runs have samples. Raises BadInputError for a name that no sample has."""
    filled = [column for column in made if column.groups]
    if len(filled) < 2:
        return None
    first = filled[0].groups[0]
    other = next((c for c in filled[1:] if c.groups[0].sign != first.sign), filled[1])
    chosen = (
        a or reference(filled[0].letter, first.best.row),
        b or reference(other.letter, other.groups[0].best.row),
    )
    texts = [text_of(_sample(made, name, field), view) for name, field in zip(chosen, ("a", "b"), strict=True)]
    return Pair(*chosen, line_diff(*texts))


def reference(letter: str, sample: Sample) -> str:
    """The name of a sample in an address: the run's letter and the sample's index."""
    return f"{letter}.{sample.index}"


def _sample(made: Sequence[Column], name: str, field: str) -> Sample:
    for column in made:
        for group in column.groups:
            for member in group.members:
                if reference(column.letter, member.row) == name:
                    return member.row
    raise BadInputError(f"{field} is {name[:40]!r}: choose a sample from the list, such as A.0", field)


def _alike(row: RunTask, budget_s: float, view: View) -> tuple[Alike, ...]:
    found: dict[tuple[str, VerdictSign], list[shown.SampleSign]] = {}
    for sign in shown.in_finish_order(row.samples, budget_s):
        found.setdefault((text_of(sign.row, view), sign.sign), []).append(sign)
    groups = [Alike(tuple(members), text) for (text, _), members in found.items()]
    return tuple(sorted(groups, key=lambda group: not group.best.chosen))


def _choice(column: Column, group: Alike) -> Choice:
    alike = f", {len(group.members)} alike" if len(group.members) > 1 else ""
    which = ", chosen" if group.best.chosen else ""
    sample = group.best.row
    return Choice(
        reference(column.letter, sample),
        f"{column.letter}, sample {sample.index}: {group.sign.name}{which}{alike}",
    )
