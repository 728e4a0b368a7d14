"""Rows of the leaderboard as the API and `--json` show them."""

from __future__ import annotations

import datetime as dt
import uuid

from pydantic import Field

from app.http.schemas import ResponseModel
from app.leaderboard.service import Row
from app.states import RunState


class BoardRow(ResponseModel):
    """A run on the leaderboard; `rank` is null for one that is not ranked, and `label` says why."""

    run: uuid.UUID
    name: str
    state: RunState
    target: str
    drafter: str
    n: int
    dataset: str
    rank: int | None
    label: str | None
    budget_s: float = Field(description="the budget the shares were read at")
    capped: bool = Field(description="the run stopped at that budget, so its shares are lower bounds")
    pass_first: float
    pass_first_interval: tuple[float, float]
    pass_all: float
    pass_all_interval: tuple[float, float]
    ranking_loss: float
    n_tasks: int
    dataset_tasks: int
    in_guest_tasks: int | None = Field(description="tasks with verdicts that a program could have forged")
    in_guest_samples: int | None = Field(description="samples with such a verdict; null: nobody counted them")
    in_guest_passed: int | None = Field(description="of those, passed")
    first_finished_p50_s: float | None
    first_finished_p95_s: float | None
    ms_per_token: float | None
    mean_acceptance_length: float | None
    device: str
    fingerprint: str
    created_at: dt.datetime


class BoardPage(ResponseModel):
    """The leaderboard, best first."""

    rows: list[BoardRow]
    next: str | None


def board_row(row: Row) -> BoardRow:
    """A row of the board; `run` holds the id."""
    names = BoardRow.model_fields.keys() - {"run"}
    return BoardRow(run=row.run.id, **{name: getattr(row if hasattr(row, name) else row.run, name) for name in names})
