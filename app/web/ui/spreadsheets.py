"""Rows as comma-separated values that a spreadsheet opens and does not run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(rows: Iterable[Iterable[object]]) -> str:
    """The rows as lines. Text that a spreadsheet would run as a formula gets an apostrophe in front."""
    out = io.StringIO()
    csv.writer(out).writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    return "'" + value if isinstance(value, str) and value.startswith(_FORMULA) else value
