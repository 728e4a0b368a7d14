"""Buffers for rows of one capacity. The rows of a batch that are about as long lie side by side in one shelf."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from decoding.memory.layout import padded_slots

_SMALLEST = 256

Slots = dict[Hashable, torch.Tensor]
"""A copy of what some slots of a row hold: [H, N, D] by the name of the buffer."""


def shelf_capacity(n_tokens: int) -> int:
    """Return the capacity of the smallest shelf for rows of `n_tokens`: 256, 384, 512, 768, 1024, 1536 and so on.

    So a row takes at most half as much again as it needs, and rows that are about as long share a shelf.
    """
    size = _SMALLEST
    while size < n_tokens:
        is_power = not size & (size - 1)
        size = size * 3 // 2 if is_power else size * 4 // 3
    return size


@dataclass(slots=True, eq=False)
class Place:
    """A row of a batch: the tokens that it has, the most it may get, and where its slots are."""

    shelf: Shelf
    index: int
    most: int
    length: int = 0

    def swap(self, other: Place) -> None:
        """Change places with a row of the same content."""
        self.shelf, self.index, other.shelf, other.index = other.shelf, other.index, self.shelf, self.index
        self.shelf.rows[self.index], other.shelf.rows[other.index] = self, other


class Shelf:
    """Rows of `capacity` slots, dense from the first on, in buffers [B, H, S, D] by name.

    A buffer is made when something is first written to it, which has the shapes.
    """

    def __init__(self, capacity: int, n_rows: int = 0) -> None:
        """There are buffers for `n_rows` rows from the start on."""
        self.capacity = capacity
        self.n_rows = n_rows
        self.n_moves = 0
        self.rows: list[Place] = []
        self.buffers: dict[Hashable, torch.Tensor] = {}

    @property
    def n_bytes(self) -> int:
        """The bytes of the buffers."""
        return sum(buffer.nbytes for buffer in self.buffers.values())

    @property
    def slot_bytes(self) -> int:
        """The bytes of one token of one row; 0 before anything was written."""
        return self.n_bytes // (self.n_rows * padded_slots(self.capacity)) if self.n_bytes else 0

    def buffer(self, name: Hashable, like: torch.Tensor) -> torch.Tensor:
        """Return a buffer [B, H, S, D], made for values such as `like` [.., H, N, D] if there is none."""
        if name not in self.buffers:
            # NOTE zeros, not empty: a masked slot still contributes 0 * value, and 0 * NaN is NaN.
            H, _, D = like.shape[-3:]
            self.buffers[name] = like.new_zeros(self.n_rows, H, padded_slots(self.capacity), D)
        return self.buffers[name]

    def resize(self, n_rows: int, capacity: int) -> None:
        """Give the buffers another number of rows, at least those in use, and no less capacity; content stays."""
        slots = padded_slots(capacity)
        for name, buffer in self.buffers.items():
            kept = buffer[: len(self.rows)]
            self.buffers[name] = F.pad(kept, (0, 0, 0, slots - kept.shape[2], 0, 0, 0, n_rows - len(kept))).contiguous()
        self.n_rows, self.capacity = n_rows, capacity
        self.n_moves += 1

    def add(self, most: int) -> Place:
        """Return a new row, the last one, for which there must be buffers."""
        place = Place(self, len(self.rows), most)
        self.rows.append(place)
        return place

    def remove(self, place: Place) -> None:
        """Take a row out; the last one moves to where it was, which copies one row."""
        last = self.rows.pop()
        if last is not place:
            self.copy(last, place, last.length)
            last.index = place.index
            self.rows[place.index] = last

    @staticmethod
    def copy(source: Place, target: Place, length: int) -> None:
        """Copy the first `length` slots of a row to another one, which may be in another shelf."""
        for name, buffer in source.shelf.buffers.items():
            target.shelf.buffer(name, buffer)[target.index, :, :length] = buffer[source.index, :, :length]
