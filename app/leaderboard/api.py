"""REST of the leaderboard."""

from __future__ import annotations

from flask import Blueprint
from pydantic import Field

from app.annotations.schemas import ArchivedQuery
from app.core.db.storable import Text
from app.leaderboard.columns import BoardPage, make_board_row
from app.leaderboard.entries import Entries
from app.leaderboard.service import ranked
from app.web.http.operations import operation
from app.web.http.paging import page_from_list
from app.web.http.schemas import Budget
from app.web.http.web import kept, session

bp = Blueprint("leaderboard_api", __name__, url_prefix="/api/v1")


class BoardQuery(ArchivedQuery):
    """The budget to read the shares at, and which runs to list."""

    budget: Budget | None = Field(None, description="seconds; default: each run's own budget")
    dataset: Text | None = Field(None, description="only runs over this dataset")
    target: Text | None = Field(None, description="only runs of this model")


@bp.get("/leaderboard")
@operation({200: BoardPage})
def index(query: BoardQuery) -> BoardPage:
    """Runs by Pass@First within a budget."""
    runs = kept(Entries).read(session())
    rows = ranked(runs, query.budget, dataset=query.dataset, target=query.target, archived=query.archived)
    page, following = page_from_list(rows, query, lambda row: str(row.run.id))
    return BoardPage(rows=[make_board_row(row) for row in page], next=following)
