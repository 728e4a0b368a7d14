"""The colour of a run: the same on every chart that shows it beside others, and at every budget."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Sequence

from sqlalchemy import Subquery, func, select
from sqlalchemy.orm import Session

from app.core.states import LISTED_RUN_KINDS
from app.runs.models import Run
from app.web.ui.charts.parts import SERIES


def numbered_runs() -> Subquery:
    """The id and `number` of every listed run: its place among the runs of its dataset as they were created, from 0."""
    number = func.row_number().over(partition_by=Run.dataset_id, order_by=Run.id) - 1
    return select(Run.id, number.label("number")).where(Run.kind.in_(LISTED_RUN_KINDS)).subquery()


def numbers_of(session: Session, run_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
    """The number of each of these runs, by id; runs that no list shows have 0."""
    numbered = numbered_runs()
    query = select(numbered.c.id, numbered.c.number).where(numbered.c.id.in_(run_ids))
    return dict.fromkeys(run_ids, 0) | {row.id: row.number for row in session.execute(query)}


def series_of(numbers: Sequence[int]) -> list[int]:
    """The series (`series_css`) of each line of a chart, from the number of its run.

    The number gives the colour. Runs created one after the other have different colours, as the arms of a study do;
    lines of one chart that share a colour differ in their dash.
    """
    lines: Counter[int] = Counter()
    series = []
    for number in numbers:
        colour = number % SERIES
        series.append(colour + SERIES * lines[colour])
        lines[colour] += 1
    return series
