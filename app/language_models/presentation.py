"""The speeds of a trained drafter as its page shows them, beside plain decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from app.language_models.drafters import Speed

PLAIN = "none"
_ORDER = (PLAIN, "sibling", "trained", "sibling+trained")


@dataclass(frozen=True)
class Cell:
    """Tokens per second, and the ratio to plain decoding; None where either was not measured."""

    tokens_per_s: float | None
    ratio: float | None


@dataclass(frozen=True)
class SpeedTable:
    """`columns` are (temperature, its batch sizes); each row is a drafter and one cell for every batch of them."""

    columns: list[tuple[float, list[int]]]
    rows: list[tuple[str, list[Cell]]]


def speed_table(speeds: Sequence[Speed]) -> SpeedTable | None:
    """The table of the measured speeds; None if there are none."""
    known = {
        (s.drafter, s.temperature, s.batch): s.tokens_per_s
        for s in speeds
        if s.temperature is not None and s.tokens_per_s is not None
    }
    if not known:
        return None
    places = sorted({(temperature, batch) for _, temperature, batch in known})
    drafters = sorted({drafter for drafter, _, _ in known}, key=_place)
    return SpeedTable(
        [(t, [b for _, b in group]) for t, group in groupby(places, key=lambda place: place[0])],
        [(d, [_cell(known.get((d, *at)), known.get((PLAIN, *at))) for at in places]) for d in drafters],
    )


def _cell(value: float | None, plain: float | None) -> Cell:
    return Cell(value, value / plain if value is not None and plain else None)


def _place(drafter: str) -> tuple[int, str]:
    return (_ORDER.index(drafter) if drafter in _ORDER else len(_ORDER), drafter)
