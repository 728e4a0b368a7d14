"""Rows of the leaderboard as the API and `--json` show them: the fields of `columns.FIELDS`."""

from __future__ import annotations

from typing import Any

from pydantic import Field, create_model

from app.http.schemas import ResponseModel
from app.leaderboard.columns import FIELDS
from app.leaderboard.service import Row

_fields: dict[str, Any] = {field.name: (field.type, Field(description=field.description)) for field in FIELDS}

BoardRow = create_model("BoardRow", __base__=ResponseModel, __doc__="A run on the leaderboard.", **_fields)

BoardPage = create_model(
    "BoardPage",
    __base__=ResponseModel,
    __doc__="The leaderboard, best first.",
    rows=(list[BoardRow], ...),
    next=(str | None, ...),
)


def board_row(row: Row) -> ResponseModel:
    """A row of the leaderboard as a `BoardRow`."""
    return BoardRow(**{field.name: field.read(row) for field in FIELDS})
