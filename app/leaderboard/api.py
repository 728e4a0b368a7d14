"""REST of the leaderboard."""

from __future__ import annotations

from flask import Blueprint
from pydantic import Field

from app.annotations.schemas import ArchivedQuery
from app.core.db.storable import InputText
from app.leaderboard.columns import BoardPage, make_board_row
from app.leaderboard.entries import LeaderboardCache
from app.leaderboard.service import rank_runs
from app.web.http.operations import declare_operation
from app.web.http.paging import split_list
from app.web.http.request_context import get_session, get_singleton
from app.web.http.schemas import Budget

bp = Blueprint("leaderboard_api", __name__, url_prefix="/api/v1")


class BoardQuery(ArchivedQuery):
    """The budget to read the shares at, and which runs to list."""

    budget: Budget | None = Field(None, description="seconds; default: each run's own budget")
    dataset: InputText | None = Field(None, description="only runs over this dataset")
    target: InputText | None = Field(None, description="only runs of this model")


@bp.get("/leaderboard")
@declare_operation({200: BoardPage})
def index(query: BoardQuery) -> BoardPage:
    """Runs by Pass@First within a budget."""
    runs = get_singleton(LeaderboardCache).read(get_session())
    rows = rank_runs(runs, query.budget, dataset=query.dataset, target=query.target, archived=query.archived)
    page, following = split_list(rows, query, lambda row: str(row.run.id))
    return BoardPage(rows=[make_board_row(row) for row in page], next=following)
