"""Shares of tasks as a table with a colour in each cell; the colours are classes of studies.css."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.ui.charts.axes import nice_top
from app.ui.units import percent

LEVELS = 10
"""Steps of the colour scale, `heat-0` to `heat-10`. The text in a cell is readable on each of them."""


@dataclass(frozen=True)
class Tile:
    """One cell: the share as text, and its class of colour."""

    text: str
    css: str


@dataclass(frozen=True)
class Heatmap:
    """The cells by row and column, and the scale from 0 up: a class and the share that it stands for."""

    tiles: tuple[tuple[Tile, ...], ...]
    legend: tuple[tuple[str, str], ...]


def heatmap(shares: Sequence[Sequence[float]], n_tasks: int) -> Heatmap:
    """The shares of `n_tasks`, by row and column, on a scale that ends at a round share."""
    top = nice_top(max((share for row in shares for share in row), default=0.0))
    tiles = tuple(tuple(Tile(percent(share, n_tasks), _css(share, top)) for share in row) for row in shares)
    steps = range(0, LEVELS + 1, 2)
    return Heatmap(tiles, tuple((f"heat-{step}", percent(top * step / LEVELS)) for step in steps))


def _css(share: float, top: float) -> str:
    return f"heat-{round(LEVELS * min(share / top, 1.0))}"
