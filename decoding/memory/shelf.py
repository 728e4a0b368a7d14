"""Buffers for rows of one capacity. The rows of a batch that may become about as long lie side by side in one shelf."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from decoding.memory.layout import padded_slots

_SMALLEST, _FINER_BEYOND = 384, 2048

Slots = dict[Hashable, torch.Tensor]
"""A copy of what some slots of a row hold: [H, N, D] by the name of the buffer."""
Kinds = dict[Hashable, torch.Tensor]
"""What the rows of a cache hold in each slot: an empty tensor [H, 0, D] by the name of the buffer."""


def shelf_capacity(most: int) -> int:
    """Return the slots of rows of up to `most` tokens: 384, 512, 896, 1024, 1536, 2048, then 2560, 3072 and so on.

    There are two sizes to a doubling up to 2,048, because each shelf is an attention of its own, and four beyond, so
    that a long row has at most a quarter more than it needs.
    """
    power = 1 << (most - 1).bit_length()  # the least at or above `most`
    step = power // (4 if power <= _FINER_BEYOND else 8)
    return padded_slots(max(-(-most // max(step, 1)) * step, _SMALLEST))


@dataclass(slots=True, eq=False)
class Place:
    """A row of a batch: the tokens that it has, the most it may get, and where its slots are."""

    shelf: Shelf
    index: int
    most: int
    length: int = 0


class Shelf:
    """Rows of `capacity` slots, dense from the first on, in buffers [B, H, S, D] by name.

    A buffer is made with the rows if its kind is known, else when something is first written to it.
    """

    def __init__(self, capacity: int, kinds: Kinds, n_rows: int = 0) -> None:
        """`kinds` are shared by all shelves of a cache. There is room for `n_rows` rows from the start on."""
        self.capacity = capacity
        self.kinds = kinds
        self.n_rows = n_rows
        self.n_moves = 0
        self.rows: list[Place] = []
        self.promised = 0  # rows that will come, for which there is room
        self.buffers: dict[Hashable, torch.Tensor] = {}

    @property
    def n_bytes(self) -> int:
        """The bytes of the buffers."""
        return sum(buffer.nbytes for buffer in self.buffers.values())

    def buffer(self, name: Hashable, like: torch.Tensor) -> torch.Tensor:
        """Return a buffer [B, H, S, D], made for values such as `like` [.., H, N, D] if there is none."""
        if name not in self.buffers:
            # NOTE zeros, not empty: a masked slot still contributes 0 * value, and 0 * NaN is NaN.
            H, _, D = like.shape[-3:]
            self.buffers[name] = like.new_zeros(self.n_rows, H, padded_slots(self.capacity), D)
            self.kinds.setdefault(name, like.new_empty(H, 0, D))
        return self.buffers[name]

    @property
    def n_needed(self) -> int:
        """The rows in use, and the ones that will come."""
        return len(self.rows) + self.promised

    def resize(self, n_rows: int, capacity: int) -> None:
        """Give the buffers another number of rows, at least those in use, and no less capacity; content stays."""
        self.n_moves += 1  # first: some buffers may have moved when memory runs out
        slots = padded_slots(capacity)
        for name, buffer in self.buffers.items():
            kept = buffer[: len(self.rows)]
            self.buffers[name] = F.pad(kept, (0, 0, 0, slots - kept.shape[2], 0, 0, 0, n_rows - len(kept))).contiguous()
        self.n_rows, self.capacity = n_rows, capacity
        for name, kind in self.kinds.items():
            self.buffer(name, kind)

    def add(self, most: int) -> Place:
        """Return a new row, the last one, for which there must be buffers."""
        place = Place(self, len(self.rows), most)
        self.rows.append(place)
        self.promised = max(self.promised - 1, 0)
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
