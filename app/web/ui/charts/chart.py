"""A chart as templates draw it."""

from __future__ import annotations

from dataclasses import dataclass

from app.web.ui.charts.axes import Axes
from app.web.ui.charts.parts import Drawing
from app.web.ui.charts.reading import Reading


@dataclass(frozen=True)
class Chart:
    """A chart ready for its macro: two drawings, a title, one sentence of description and the table below it."""

    title: str
    description: str
    x_title: str
    y_title: str
    layouts: tuple[Axes, Axes]
    table_head: tuple[str, ...]
    table: list[tuple[str, ...]]
    keys: list[tuple[str, str, str]]  # label, classes and key of every series
    reading: Reading | None = None  # of a chart with a budget axis

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """The wide and the narrow one."""
        return tuple(axes.drawing for axes in self.layouts)
