"""The ragged key-value cache: each row has its own length, and rejected tokens are rolled back by not committing them.

Each layer owns static buffers `[B, Hkv, S, D]`. A forward writes row r's new keys and values from slot `lens[r]` on;
`commit` then advances `lens[r]` by the number of accepted tokens. The rejected ones stay in slots past the length,
which attention never reads and the next round overwrites, so that a rollback copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F
from transformers.cache_utils import Cache, CacheLayerMixin

from decoding.attention.layout import Layout, padded_slots
from kernels.kv_scatter import kv_scatter


@dataclass(frozen=True, slots=True)
class Slots:
    """A copy of what some slots of a row hold: keys and values [Hkv, N, D] by layer, states [N, F] by name."""

    keys: dict[int, torch.Tensor]
    values: dict[int, torch.Tensor]
    states: dict[str, torch.Tensor]

    @property
    def n_bytes(self) -> int:
        """The bytes of the copy."""
        return sum(tensor.nbytes for tensor in (*self.keys.values(), *self.values.values(), *self.states.values()))


class RaggedLayer(CacheLayerMixin):
    """The keys and values of one layer, `[B, Hkv, S, D]` each; allocated at the first update, which has the shapes."""

    is_compileable = True
    is_croppable = False
    is_sliding = False

    def __init__(self, cache: RaggedCache) -> None:
        super().__init__()
        self.cache = cache

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate zeroed buffers for states of shape [1, Hkv, N, D]."""
        # NOTE zeros, not empty: a masked slot still contributes 0 * value, and 0 * NaN is NaN.
        B, S = self.cache.n_rows, padded_slots(self.cache.capacity)
        self.keys = key_states.new_zeros(B, key_states.shape[1], S, key_states.shape[3])
        self.values = value_states.new_zeros(B, value_states.shape[1], S, value_states.shape[3])
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write packed states [1, Hkv, N, D] to their rows' slots; return the rows in use, [R, Hkv, S, D]."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        layout = self.cache.layout
        keys, values = key_states[0].transpose(0, 1), value_states[0].transpose(0, 1)
        if self.cache.uses_kernel:
            kv_scatter(self.keys, self.values, keys, values, layout.slot, layout.position)
        else:
            self.keys[layout.slot, :, layout.position] = keys
            self.values[layout.slot, :, layout.position] = values
        rows = slice(layout.first_slot, layout.first_slot + layout.n_rows)
        return self.keys[rows], self.values[rows]

    def resize(self, n_rows: int, capacity: int) -> None:
        """Grow the buffers to `n_rows` rows of `capacity` tokens and keep their content."""
        if self.is_initialized:
            more = (0, 0, 0, padded_slots(capacity) - self.keys.shape[2], 0, 0, 0, n_rows - len(self.keys))
            self.keys, self.values = F.pad(self.keys, more), F.pad(self.values, more)

    def release(self) -> None:
        """Give the buffers back; the next update allocates new ones."""
        if self.is_initialized:
            del self.keys, self.values
            self.is_initialized = False

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the slots that a mask would cover. Our attention does not ask for a mask."""
        return self.cache.capacity, 0

    def get_seq_length(self) -> int:
        """Return the length of the longest row. Callers pass explicit positions, so that nothing depends on it."""
        return max(self.cache.lens, default=0)

    def get_max_length(self) -> int:
        """Return the slots per row."""
        return self.cache.capacity


class RaggedCache(Cache):
    """The buffers of all layers, for rows of `capacity` tokens, and the committed length of each row.

    There are buffers for the `n_rows` rows that have been in use, up to `max_rows`: one long prompt takes memory for
    one row. With `keeps_place` they are for all rows from the start, and only move when the capacity grows: graphs need
    that. `uses_kernel` writes keys and values in one launch of the Triton kernel instead of two of PyTorch. `states`
    are hidden states by name that a caller records for each token, [B, S, F] each; they follow the rows as keys do.
    """

    def __init__(
        self,
        n_layers: int,
        max_rows: int,
        capacity: int = 0,
        *,
        uses_kernel: bool = False,
        keeps_place: bool = False,
    ) -> None:
        self.max_rows = max_rows
        self.keeps_place = keeps_place
        self.n_rows = max_rows if keeps_place else 0
        self.uses_kernel = uses_kernel
        self.capacity = capacity
        self.lens: list[int] = []
        self.states: dict[str, torch.Tensor] = {}
        self._layout: Layout | None = None
        super().__init__(layers=[RaggedLayer(self) for _ in range(n_layers)])

    @property
    def n_bytes(self) -> int:
        """The bytes of the buffers that are allocated."""
        used = [layer for layer in self.layers if layer.is_initialized]
        tensors = [t for layer in used for t in (layer.keys, layer.values)] + list(self.states.values())
        return sum(tensor.nbytes for tensor in tensors)

    @property
    def slot_bytes(self) -> int:
        """The bytes of one token of one row; 0 before anything was written."""
        return self.n_bytes // (self.n_rows * padded_slots(self.capacity)) if self.n_bytes else 0

    @property
    def layout(self) -> Layout:
        """The layout of the current forward. Raises RuntimeError outside of one."""
        if self._layout is None:
            raise RuntimeError("the cache was used outside a forward")
        return self._layout

    def begin(self, counts: Sequence[int], device: torch.device, first_slot: int = 0) -> Layout:
        """Lay out a forward that appends `counts[r]` tokens to each row from `first_slot` on, without committing them.

        Raises RuntimeError if a row would outgrow the capacity.
        """
        layout = Layout.build(self.lens[first_slot : first_slot + len(counts)], counts, device, first_slot)
        if layout.longest > self.capacity:
            # An index past the end must not be clamped: that would overwrite a live slot.
            raise RuntimeError(f"cache overflow: {layout.longest} tokens, capacity {self.capacity}")
        self._layout = layout
        return layout

    def use(self, layout: Layout) -> None:
        """Use `layout` for the next forward. CUDA graphs need this, because their lengths are on the device."""
        self._layout = layout

    def record(self, name: str, states: torch.Tensor) -> None:
        """Keep hidden states [N, F] of the tokens of the current forward in their rows' slots."""
        self.states_of(name, states)[self.layout.slot, self.layout.position] = states

    def commit(self, counts: Sequence[int], first_slot: int = 0) -> None:
        """Advance each row from `first_slot` on by its accepted tokens; the rest of the last forward is rolled back."""
        for row, n in enumerate(counts, start=first_slot):
            self.lens[row] += n

    def reserve(self, capacity: int) -> None:
        """Make room for rows of at least `capacity` tokens; what rows hold is kept, and an empty cache may shrink."""
        if self.lens or self.keeps_place:
            if capacity > self.capacity:
                self._resize(self.n_rows, capacity)
        elif capacity != self.capacity:
            self.release()
            self.capacity = capacity

    def reserve_rows(self, n_rows: int) -> None:
        """Make room for `n_rows` rows."""
        if n_rows > self.n_rows:
            self._resize(self.rows_for(n_rows), self.capacity)

    def rows_for(self, n_rows: int) -> int:
        """Return the rows that there are buffers for where `n_rows` are in use.

        That is a power of two, so that rows that come one by one are copied a few times only.
        """
        return self.n_rows if n_rows <= self.n_rows else min(1 << (n_rows - 1).bit_length(), self.max_rows)

    def _resize(self, n_rows: int, capacity: int) -> None:
        for layer in self.layers:
            layer.resize(n_rows, capacity)
        for name, states in self.states.items():
            more = (0, 0, 0, padded_slots(capacity) - states.shape[1], 0, n_rows - len(states))
            self.states[name] = F.pad(states, more)
        self.n_rows, self.capacity = n_rows, capacity

    def release(self) -> None:
        """Give the buffers back: the cycle of cache and layers would keep them until Python looks for such."""
        for layer in self.layers:
            layer.release()
        self.states.clear()
        self.n_rows = 0

    def start(self, row: int, length: int = 0, source: int | None = None) -> None:
        """Start a row at the end or in place of a finished one, with the first `length` tokens of the row `source`."""
        self.reserve_rows(row + 1)
        if source is not None and source != row:
            self._copy(source, row, length)
        self.lens[row : row + 1] = [length]

    def fork(self, row: int, n_written: int = 0) -> None:
        """Append a copy of `row`: its committed tokens, and the `n_written` uncommitted ones after them."""
        self.reserve_rows(len(self.lens) + 1)
        self._copy(row, len(self.lens), self.lens[row] + n_written)
        self.lens.append(self.lens[row])

    def drop(self, row: int) -> None:
        """Remove a row: the last row moves into its place, which copies one row, and the batch shrinks by one."""
        last = len(self.lens) - 1
        length = self.lens[last]
        if row != last:
            self._copy(last, row, length)
            self.lens[row] = length
        self.lens.pop()

    def read(self, row: int, start: int, end: int) -> Slots:
        """Return a copy of a row's slots from `start` to before `end`."""
        layers = {i: layer for i, layer in enumerate(self.layers) if layer.is_initialized}
        return Slots(
            {i: layer.keys[row, :, start:end].clone() for i, layer in layers.items()},
            {i: layer.values[row, :, start:end].clone() for i, layer in layers.items()},
            {name: states[row, start:end].clone() for name, states in self.states.items()},
        )

    def write(self, row: int, start: int, slots: Slots) -> None:
        """Write a copy into a row's slots from `start` on, without committing them. There must be room for it."""
        for i, keys in slots.keys.items():
            layer, values = self.layers[i], slots.values[i]
            if not layer.is_initialized:
                layer.lazy_initialization(keys[None], values[None])
            layer.keys[row, :, start : start + keys.shape[1]] = keys
            layer.values[row, :, start : start + keys.shape[1]] = values
        for name, part in slots.states.items():
            self.states_of(name, part)[row, start : start + len(part)] = part

    def states_of(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """Return the states of a name [B, S, F]; where there are none, they are made for values such as `like`."""
        if name not in self.states:
            self.states[name] = like.new_zeros(self.n_rows, padded_slots(self.capacity), like.shape[1])
        return self.states[name]

    def _copy(self, source: int, target: int, length: int) -> None:
        for layer in self.layers:
            if layer.is_initialized:
                layer.keys[target, :, :length] = layer.keys[source, :, :length]
                layer.values[target, :, :length] = layer.values[source, :, :length]
        for states in self.states.values():
            states[target, :length] = states[source, :length]

    def rewind(self, row: int, length: int) -> None:
        """Truncate a row to its first `length` tokens: a draft model commits while it drafts, so rejection rewinds."""
        self.lens[row] = min(self.lens[row], length)
