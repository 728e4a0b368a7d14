"""The leaderboard as comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from app.leaderboard.columns import FIELDS
from app.leaderboard.service import Row


def as_csv(rows: Sequence[Row]) -> str:
    """All rows, unranked ones with their label; shares from 0 to 1, times in seconds."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(header for field in FIELDS for header in field.headers)
    writer.writerows([_cell(value) for field in FIELDS for value in field.cells(row)] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    """The value, with an apostrophe before text that a spreadsheet would run as a formula."""
    return "'" + value if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
