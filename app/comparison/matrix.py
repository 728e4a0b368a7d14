"""The matrix of an overlay: one row per task, one column per run; tasks on which the runs disagree come first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from app.comparison.loading import Overlay
from app.web.ui.display import FAILURE_SIGNS, VERDICTS, VerdictSign
from evaluation.verdicts import Failure, Status, classify_failure

RowFilter = Literal["all", "different", "lost"]
ROW_FILTER_LABELS: dict[RowFilter, str] = {
    "all": "All",
    "different": "Only differences",
    "lost": "Solved by the baseline, lost by another",
}

SOLVED_FIRST_SIGN = VERDICTS[Status.PASSED]
SOLVED_ANY_SIGN = VerdictSign("(P)", "any", "another sample passed", "the chosen sample fails, another one passes")


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One run at one task within the budget."""

    outcome: Literal["first", "any", "none"]  # solved by the chosen sample, by another, by none
    failure: Failure | None  # failure class of the chosen sample, if no sample passed
    first_correct_s: float | None  # when the first passing sample finished; None: not in time

    @property
    def sign(self) -> VerdictSign:
        """The letter and colour of the cell."""
        return (
            SOLVED_FIRST_SIGN
            if self.outcome == "first"
            else SOLVED_ANY_SIGN
            if self.failure is None
            else FAILURE_SIGNS[self.failure]
        )


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One task, with a cell for each run."""

    task_id: str
    cells: list[MatrixCell]

    @property
    def differs(self) -> bool:
        """Whether the runs come to different outcomes."""
        return len({cell.outcome for cell in self.cells}) > 1

    @property
    def lost(self) -> bool:
        """Whether the baseline run's chosen sample passes and another run's does not."""
        return self.cells[0].outcome == "first" and self.differs

    @property
    def disagreement(self) -> tuple[int, int]:
        """Largest where half of the runs solve the task; by Pass@First, then by Pass@All."""
        outcomes = [cell.outcome for cell in self.cells]
        first, none = outcomes.count("first"), outcomes.count("none")
        return first * (len(outcomes) - first), none * (len(outcomes) - none)


@dataclass(frozen=True, slots=True)
class Matrix:
    """The rows that pass the filter, of all `total`; how many rows each filter shows."""

    rows: Sequence[MatrixRow]
    total: int
    by_filter: dict[RowFilter, int]


def build_matrix(overlay: Overlay, budget_s: float, only: RowFilter = "all") -> Matrix:
    """All tasks at `budget_s` seconds, those first whose runs divide most evenly into solved and not."""
    rows = sorted(_build_rows(overlay, budget_s), key=lambda row: row.disagreement, reverse=True)
    shows = {
        "all": rows,
        "different": [row for row in rows if row.differs],
        "lost": [row for row in rows if row.lost],
    }
    return Matrix(shows[only], len(rows), {key: len(shows[key]) for key in ROW_FILTER_LABELS})


def list_signs(rows: Sequence[MatrixRow]) -> list[VerdictSign]:
    """The signs that stand in these rows, solved first: what a legend explains."""
    used = {cell.sign for row in rows for cell in row.cells}
    return [sign for sign in (SOLVED_FIRST_SIGN, SOLVED_ANY_SIGN, *FAILURE_SIGNS.values()) if sign in used]


def _build_rows(overlay: Overlay, budget_s: float) -> list[MatrixRow]:
    outcomes = overlay.paired_runs.outcomes
    arrays = (*outcomes.find_passes(budget_s), outcomes.find_chosen(budget_s), outcomes.find_first_correct_times())
    by_task = zip(*(array.T.tolist() for array in arrays), strict=True)
    return [
        MatrixRow(task_id=task_id, cells=[_build_cell(overlay, *parts) for parts in zip(*of_task, strict=True)])
        for task_id, of_task in zip(overlay.task_ids, by_task, strict=True)
    ]


def _build_cell(overlay: Overlay, is_first: bool, is_any: bool, chosen: int, first_correct_s: float) -> MatrixCell:
    if is_any:
        return MatrixCell(outcome="first" if is_first else "any", failure=None, first_correct_s=first_correct_s)
    if chosen < 0:
        return MatrixCell(outcome="none", failure="not_finished", first_correct_s=None)
    sample = overlay.samples[chosen]
    return MatrixCell(
        outcome="none", failure=_classify_cached(str(sample.verdict), sample.detail or ""), first_correct_s=None
    )


@lru_cache(maxsize=1024)
def _classify_cached(verdict: str, detail: str) -> Failure | None:
    return classify_failure(verdict, detail, finished=True)
