"""Rows of a batch in lists that stay in step: what is at an index belongs to the same row in each of them."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def take_out(rows: list[T], index: int) -> T:
    """Remove and return an item; the last one takes its place."""
    taken, last = rows[index], rows.pop()
    if index < len(rows):
        rows[index] = last
    return taken
