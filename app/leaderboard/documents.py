"""Rows of the leaderboard as REST, `--json` and CSV have them: the fields of `columns.FIELDS`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field, create_model

from app.leaderboard.columns import FIELDS
from app.leaderboard.service import Row
from app.web.http.schemas import ResponseModel
from app.web.ui import spreadsheets

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


def as_csv(rows: Sequence[Row]) -> str:
    """All rows, unranked ones with their label; shares from 0 to 1, times in seconds."""
    headings = [header for field in FIELDS for header in field.headers]
    return spreadsheets.as_csv([headings, *([value for field in FIELDS for value in field.cells(row)] for row in rows)])
