"""A trained drafter as its page shows it: charts of the training, and its speeds beside plain decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from app.language_models.drafters import Speed, TrainingPoint
from app.web.ui.charts.chart import Chart
from app.web.ui.charts.lines import Line, training_chart
from app.web.ui.units import ordinal

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


def loss_chart(curve: Sequence[TrainingPoint]) -> Chart | None:
    """Loss and held-out divergence over the training steps; None without evaluations."""
    values = {
        "training loss, whole drafts": [point.loss for point in curve],
        "held-out divergence, 1st token": [point.divergence for point in curve],
    }
    return training_chart(_lines(curve, values), "Loss over the training", "Nats", shares=False) if curve else None


def match_chart(curve: Sequence[TrainingPoint]) -> Chart | None:
    """Acceptance by position over the training steps; None without evaluations."""
    values = {
        f"{ordinal(i + 1)} token": [point.match[i] if i < len(point.match) else None for point in curve]
        for i in range(max((len(point.match) for point in curve), default=0))
    }
    return (
        training_chart(_lines(curve, values), "Acceptance over the training", "Accepted", shares=True)
        if values
        else None
    )


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


def _lines(curve: Sequence[TrainingPoint], values: dict[str, list[float | None]]) -> list[Line]:
    # Each line has a dash of its own as well, for those who cannot tell the colours apart.
    steps = [point.step for point in curve]
    return [Line(label, steps, found, i, dash=i + 1) for i, (label, found) in enumerate(values.items())]


def _cell(value: float | None, plain: float | None) -> Cell:
    return Cell(value, value / plain if value is not None and plain else None)


def _place(drafter: str) -> tuple[int, str]:
    return (_ORDER.index(drafter) if drafter in _ORDER else len(_ORDER), drafter)
