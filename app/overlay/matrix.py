"""Tasks down, runs across: what each run made of each task within a budget, the tasks that divide the runs first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from app.errors import BadInputError
from app.overlay.loading import Overlaid
from app.ui.display import FAILURE_SIGNS, VERDICTS, VerdictSign
from decoding.suggest import one_of
from evaluation.failures import failure_of
from evaluation.verdicts import FAILURES, Failure, Status

Outcome = Literal["first", "any", "none"]
"""Solved by the chosen sample, only by another one, or by none."""
Only = Literal["all", "different", "lost"]
ONLY: dict[Only, str] = dict(
    zip(get_args(Only), ("All", "Only differences", "Solved by the baseline, lost by another"), strict=True)
)

FIRST = VERDICTS[Status.PASSED]
ANY = VerdictSign("(P)", "any", "another sample passed", "the chosen sample fails, another one passes")


@dataclass(frozen=True, slots=True)
class Cell:
    """One run at one task. `failure` is the class of the chosen sample where none passed within the budget;
    `first_correct_s` the seconds to the first passing sample within it."""

    outcome: Outcome
    failure: Failure | None
    first_correct_s: float | None

    @property
    def sign(self) -> VerdictSign:
        """The letter and colour of the cell."""
        return FIRST if self.outcome == "first" else ANY if self.failure is None else FAILURE_SIGNS[self.failure]


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task: a cell for each run, and by how many runs its chosen and any sample passed."""

    task_id: str
    cells: tuple[Cell, ...]
    first: int
    every: int

    @property
    def differs(self) -> bool:
        """Whether the runs come to different outcomes."""
        return len({cell.outcome for cell in self.cells}) > 1

    @property
    def lost(self) -> bool:
        """Whether the baseline run's chosen sample passes and another run's does not."""
        return self.cells[0].outcome == "first" and self.first < len(self.cells)


@dataclass(frozen=True, slots=True)
class Matrix:
    """The rows that pass the filters, of all `total`; how many rows each filter alone would show."""

    rows: tuple[TaskRow, ...]
    total: int
    by_filter: dict[Only, int]
    by_failure: dict[Failure, int]


def parse_filters(only: str | None, failure: str | None) -> tuple[Only, Failure | None]:
    """The filters that an address names. Raises BadInputError for an unknown one."""
    known_only = next((key for key in ONLY if key == (only or "all")), None)
    known_failure = next((key for key in FAILURES if key == failure), None)
    if known_only is None:
        raise BadInputError(f"only is {str(only)[:40]!r}: {one_of(str(only)[:40], list(ONLY))}", "only")
    if failure and known_failure is None:
        raise BadInputError(f"failure is {failure[:40]!r}: {one_of(failure[:40], list(FAILURES))}", "failure")
    return known_only, known_failure


def matrix(found: Overlaid, budget_s: float, only: Only = "all", failure: Failure | None = None) -> Matrix:
    """All tasks at `budget_s` seconds, those first whose runs divide most evenly into solved and not."""
    rows = sorted(_rows(found, budget_s), key=_disagreement, reverse=True)
    shows = {
        "all": rows,
        "different": [row for row in rows if row.differs],
        "lost": [row for row in rows if row.lost],
    }
    failures = [{cell.failure for cell in row.cells if cell.failure} for row in rows]
    by_failure = Counter(one for classes in failures for one in classes)
    return Matrix(
        rows=tuple(row for row in shows[only] if failure is None or any(c.failure == failure for c in row.cells)),
        total=len(rows),
        by_filter={key: len(shows[key]) for key in ONLY},
        by_failure={one: by_failure[one] for one in FAILURES if one in by_failure},
    )


def signs_of(rows: Sequence[TaskRow]) -> list[VerdictSign]:
    """The signs that stand in these rows, solved first: what a legend explains."""
    used = {cell.sign for row in rows for cell in row.cells}
    return [sign for sign in (FIRST, ANY, *FAILURE_SIGNS.values()) if sign in used]


def _rows(found: Overlaid, budget_s: float) -> list[TaskRow]:
    first, every = found.measured.at(budget_s)
    firsts, alls = first.T.tolist(), every.T.tolist()
    chosen = found.measured.chosen(budget_s).T.tolist()
    times = found.measured.first_correct().T.tolist()
    rows = []
    for place, task_id in enumerate(found.task_ids):
        cells = tuple(
            _cell(found, *parts) for parts in zip(firsts[place], alls[place], chosen[place], times[place], strict=True)
        )
        rows.append(TaskRow(task_id, cells, sum(firsts[place]), sum(alls[place])))
    return rows


def _cell(found: Overlaid, is_first: bool, is_any: bool, chosen: int, first_correct_s: float) -> Cell:
    if is_any:
        return Cell("first" if is_first else "any", None, None if math.isnan(first_correct_s) else first_correct_s)
    if chosen < 0:
        return Cell("none", "not_finished", None)
    return Cell("none", _failure(found.verdicts[chosen], found.details[chosen] or ""), None)


@lru_cache(maxsize=1024)
def _failure(verdict: str, detail: str) -> Failure | None:
    return failure_of(verdict, detail, finished=True)


def _disagreement(row: TaskRow) -> tuple[int, int]:
    """Largest where half of the runs solve the task; by Pass@First, then by Pass@All."""
    n = len(row.cells)
    return row.first * (n - row.first), row.every * (n - row.every)
