"""The slots that recurrent states of one model lie in: one buffer for each state of a layer, made once.

A row of a batch has a slot, which unlike a page cannot be shared: each round changes all of it. States of earlier
prompts may be kept for prompts that begin with the same tokens; the least recently used is dropped for a newer one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import numpy as np
import torch

from decoding.memory.pages import OutOfPagesError


def count_slots(max_rows: int) -> int:
    """Return the slots that the rows of a batch may need: two each, for its state and the one after its prompt."""
    return 2 * max_rows


class StatePool:
    """`n_slots` slots for rows, and up to `max_kept` more for states of earlier prompts."""

    def __init__(self, n_slots: int, max_kept: int = 0) -> None:
        self.n_slots = n_slots
        self._size = n_slots + max_kept
        self._max_kept = max_kept
        self.buffers: dict[Hashable, torch.Tensor] = {}
        self._free = list(range(self._size - 1, -1, -1))  # the first one first
        self._n_touched = 0
        self._kept: OrderedDict[bytes, int] = OrderedDict()  # least recently used first

    def buffer(self, name: Hashable, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Return the buffer [S, *shape] of a name."""
        if name not in self.buffers:
            if device.type == "cpu":
                # The system gives memory of NumPy's zeros once it is touched; PyTorch would touch all of it.
                n_bytes = self._size * torch.Size(shape).numel() * dtype.itemsize
                self.buffers[name] = torch.from_numpy(np.zeros(n_bytes, np.uint8)).view(dtype).view(self._size, *shape)
            else:
                self.buffers[name] = torch.zeros(self._size, *shape, dtype=dtype, device=device)
        return self.buffers[name]

    @property
    def slot_bytes(self) -> int:
        """The bytes of a slot."""
        return sum(buffer.nbytes for buffer in self.buffers.values()) // self._size

    @property
    def n_bytes(self) -> int:
        """The bytes that the slots take: on a CPU only slots that were in use take any."""
        on_cpu = all(buffer.device.type == "cpu" for buffer in self.buffers.values())
        return (self._n_touched if on_cpu else self._size) * self.slot_bytes

    @property
    def n_used(self) -> int:
        """The slots that rows have."""
        return self._size - len(self._free) - len(self._kept)

    def take(self) -> int:
        """Return a slot whose content means nothing yet. Raises OutOfPagesError."""
        if self.n_used == self.n_slots:
            raise OutOfPagesError(f"all {self.n_slots} slots for recurrent states are in use")
        slot = self._free.pop()
        self._n_touched = max(self._n_touched, slot + 1)
        return slot

    def give_back(self, slot: int) -> None:
        """Free a slot."""
        self._free.append(slot)

    def copy(self, source: int, target: int) -> None:
        """Copy what a slot holds to another one."""
        for buffer in self.buffers.values():
            buffer[target] = buffer[source]

    def clear(self, slot: int) -> None:
        """Let a slot hold the state before the first token: zeros."""
        for buffer in self.buffers.values():
            buffer[slot] = 0

    def find(self, key: bytes) -> int | None:
        """Return the slot with the state that is kept under a key, which counts as a use of it."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def __contains__(self, key: bytes) -> bool:
        return key in self._kept

    def keep(self, key: bytes, slot: int) -> bool:
        """Keep a copy of what a slot holds under a key; return False if there was one, or none can be kept."""
        if key in self._kept or not self._max_kept:
            return False
        if len(self._kept) == self._max_kept:
            self._free.append(self._kept.popitem(last=False)[1])
        self._kept[key] = self._free.pop()
        self._n_touched = max(self._n_touched, self._kept[key] + 1)
        self.copy(slot, self._kept[key])
        return True

    def forget(self, key: bytes) -> None:
        """Free the slot that is kept under a key, if there is one."""
        if key in self._kept:
            self._free.append(self._kept.pop(key))
