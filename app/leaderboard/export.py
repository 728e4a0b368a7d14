"""The leaderboard as comma-separated values."""

from __future__ import annotations

from collections.abc import Sequence

from app.leaderboard.columns import FIELDS
from app.leaderboard.service import Row
from app.ui import spreadsheets


def as_csv(rows: Sequence[Row]) -> str:
    """All rows, unranked ones with their label; shares from 0 to 1, times in seconds."""
    headings = [header for field in FIELDS for header in field.headers]
    return spreadsheets.as_csv([headings, *([value for field in FIELDS for value in field.cells(row)] for row in rows)])
