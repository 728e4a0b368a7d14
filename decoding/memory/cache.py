"""The ragged key-value cache: each row has its own length, and rejected tokens are rolled back by not committing them.

Each layer owns buffers `[B, Hkv, S, D]`, one for the rows of each capacity (`shelf.py`). A forward writes row r's new
keys and values from slot `lens[r]` on; `commit` then advances `lens[r]` by the number of accepted tokens. The rejected
ones stay in slots past the length, which attention never reads and the next round overwrites, so that a rollback copies
nothing.

A row has the capacity that it may need, whatever the other rows of its batch may need, and attention reads each shelf
only as far as its rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from decoding.memory.layout import Layout, padded_slots
from decoding.memory.shelf import Kinds, Place, Shelf, Slots, shelf_capacity
from kernels.registry import Scatter


def _index_put(
    keys: torch.Tensor,
    values: torch.Tensor,
    new_keys: torch.Tensor,
    new_values: torch.Tensor,
    row: torch.Tensor,
    position: torch.Tensor,
) -> None:
    keys[row, :, position] = new_keys
    values[row, :, position] = new_values


Held = torch.Tensor | tuple[torch.Tensor, ...]
"""Keys or values of rows, [R, Hkv, S, D]; one tensor for each of `Layout.groups` where there are several."""


class RaggedLayer(CacheLayerMixin):
    """The keys and values of one layer."""

    is_compileable = True
    is_croppable = False
    is_sliding = False

    def __init__(self, cache: RaggedCache, index: int) -> None:
        super().__init__()
        self.cache = cache
        self._names = ("keys", index), ("values", index)
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: a shelf makes its buffers when they are first written."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[Held, Held]:
        """Write packed states [1, Hkv, N, D] to their rows' slots; return keys and values of the rows in use."""
        groups = self.cache.layout.groups
        if len(groups) == 1:
            return self._write(groups[0], key_states, value_states)
        keys, values = zip(*(self._write(group, key_states, value_states) for group in groups), strict=True)
        return keys, values

    def _write(
        self, group: Layout, key_states: torch.Tensor, value_states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        shelf = self.cache.shelf(group.shelf)
        keys, values = (
            shelf.buffer(name, states) for name, states in zip(self._names, (key_states, value_states), strict=True)
        )
        new_keys, new_values = (states[0].transpose(0, 1) for states in (key_states, value_states))
        if group.tokens is not None:
            new_keys, new_values = new_keys[group.tokens], new_values[group.tokens]
        self.cache.scatter(keys, values, new_keys, new_values, group.slot, group.position)
        rows = slice(group.first_slot, group.first_slot + group.n_rows)
        return keys[rows], values[rows]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the slots that a mask would cover. Our attention does not ask for a mask."""
        return self.cache.capacity, 0

    def get_seq_length(self) -> int:
        """Return the length of the longest row. Callers pass explicit positions, so that nothing depends on it."""
        return max(self.cache.lens, default=0)

    def get_max_length(self) -> int:
        """Return the slots of the longest row."""
        return self.cache.capacity


class RaggedCache(Cache):
    """The rows of a batch: the committed length of each, and its keys and values in the buffers of a shelf.

    A shelf has buffers for the rows that have been in use, up to `max_rows`, more only if there are more rows. With
    `keeps_place` there is one shelf for all rows from the start, which only moves when a row needs more than its
    capacity, rounded up to `capacity_step`: graphs need that. With `one_shelf` all rows share one, as long as the
    longest needs it: for models that compute with the keys of all rows at once. `scatter` writes keys and values, by
    default with PyTorch. Beside keys and values a caller may `record` states
    of each token; they follow the rows as keys do. `may_take` is asked before a shelf takes more bytes than its rows
    need. `kinds` says what a row holds, once something was written.
    """

    def __init__(
        self,
        n_layers: int,
        max_rows: int,
        *,
        scatter: Scatter | None = None,
        keeps_place: bool = False,
        capacity_step: int = 1,
        one_shelf: bool = False,
    ) -> None:
        self.max_rows = max_rows
        self.keeps_place = keeps_place
        self.capacity_step = capacity_step
        self.scatter: Scatter = scatter or _index_put
        self.may_take: Callable[[int], bool] = lambda _n_bytes: True
        self._one_shelf = one_shelf
        self._shelves: dict[int, Shelf] = {}
        self._rows: list[Place] = []
        self._layout: Layout | None = None
        self.kinds: Kinds = {}
        if keeps_place:
            self._shelves[0] = self._new_shelf(0, max_rows)
        super().__init__(layers=[RaggedLayer(self, i) for i in range(n_layers)])

    # What it holds ------------------------------------------------------------------------------------------------

    @property
    def lens(self) -> list[int]:
        """The committed tokens of each row."""
        return [row.length for row in self._rows]

    @property
    def n_bytes(self) -> int:
        """The bytes of the buffers that are allocated."""
        return sum(shelf.n_bytes for shelf in self._shelves.values())

    @property
    def slot_bytes(self) -> int:
        """The bytes of one token of one row; 0 as long as it is not known what a row holds."""
        return sum(kind.shape[0] * kind.shape[2] * kind.element_size() for kind in self.kinds.values())

    @property
    def n_moves(self) -> int:
        """How often the buffers of a cache that keeps its place have moved."""
        return self._shelves[0].n_moves

    @property
    def capacity(self) -> int:
        """The slots of the longest row that there are buffers for."""
        return max((shelf.capacity for shelf in self._shelves.values()), default=0)

    def slots_for(self, rows: Collection[tuple[int, int]]) -> int:
        """Return the slots that rows take together: some numbers of rows, with the most tokens of each."""
        longest = max((most for _, most in rows), default=0)
        if self.keeps_place:
            return self.max_rows * padded_slots(max(self._step(longest), self.capacity))
        return sum(n * shelf_capacity(longest if self._one_shelf else most) for n, most in rows)

    def most(self, row: int) -> int:
        """Return the most tokens that a row may get."""
        return self._rows[row].most

    def shelf(self, key: int) -> Shelf:
        """Return a shelf by its key, `Layout.shelf`."""
        return self._shelves[key]

    def share_kinds(self, kinds: Kinds) -> None:
        """Share what is known of rows with other caches of this kind, earlier and later ones."""
        self.kinds = kinds
        for shelf in self._shelves.values():
            shelf.kinds = kinds

    # A forward ----------------------------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """The layout of the current forward. Raises RuntimeError outside of one."""
        if self._layout is None:
            raise RuntimeError("the cache was used outside a forward")
        return self._layout

    def begin(self, counts: Sequence[int], device: torch.device, first_slot: int = 0) -> Layout:
        """Lay out a forward that appends `counts[r]` tokens to each row from `first_slot` on, without committing them.

        Raises RuntimeError if a row would get more than its most.
        """
        rows = self._rows[first_slot : first_slot + len(counts)]
        for row, n in zip(rows, counts, strict=True):
            if row.length + n > row.most:
                # An index past the end must not be clamped: that would overwrite a live slot.
                raise RuntimeError(f"cache overflow: {row.length + n} tokens, capacity {row.most}")
        places = [(0 if self.keeps_place else row.shelf.capacity, row.index) for row in rows]
        self._layout = Layout.build([row.length for row in rows], counts, device, places)
        return self._layout

    def use(self, layout: Layout) -> None:
        """Use `layout` for the next forward. CUDA graphs need this, because their lengths are on the device."""
        self._layout = layout

    def commit(self, counts: Sequence[int], first_slot: int = 0) -> None:
        """Advance each row from `first_slot` on by its accepted tokens; the rest of the last forward is rolled back."""
        for row, n in zip(self._rows[first_slot : first_slot + len(counts)], counts, strict=True):
            row.length += n

    # Hidden states ------------------------------------------------------------------------------------------------

    def record(self, name: str, states: torch.Tensor) -> None:
        """Keep hidden states [N, F] of the tokens of the current forward in their rows' slots."""
        for group in self.layout.groups:
            buffer = self._shelves[group.shelf].buffer(name, states[None])
            buffer[group.slot, 0, group.position] = states if group.tokens is None else states[group.tokens]

    def states(self, name: str, row: int) -> torch.Tensor:
        """Return the states [S, F] that were recorded under a name in a row's slots."""
        place = self._rows[row]
        return place.shelf.buffers[name][place.index, 0]

    def states_of_all(self, name: str) -> torch.Tensor:
        """Return the recorded states [B, S, F] of a cache that keeps its place."""
        return self._shelves[0].buffers[name][:, 0]

    def prepare_states(self, name: str, like: torch.Tensor) -> None:
        """Make the buffer of states such as `like` [1, F] in a cache that keeps its place."""
        self._shelves[0].buffer(name, like[None])

    # Rows ---------------------------------------------------------------------------------------------------------

    def reserve(self, capacity: int) -> None:
        """Make room for rows of `capacity` tokens in a cache that keeps its place."""
        shelf = self._shelves[0]
        if capacity > shelf.capacity:
            shelf.resize(shelf.n_rows, self._step(capacity))

    def make_room(self, n_rows: int, most: int) -> None:
        """Make room for `n_rows` more rows of up to `most` tokens. That may fail, and then changes no row."""
        shelf = self._shelf_for(most)
        shelf.promised += n_rows
        if shelf.n_needed > shelf.n_rows:
            shelf.resize(self._rows_for(shelf.n_needed, shelf), shelf.capacity)

    def withdraw_room(self) -> None:
        """Take back what `make_room` has promised and no row uses yet."""
        for shelf in self._shelves.values():
            shelf.promised = 0

    def start(self, row: int, most: int, length: int = 0, *, source: int | None = None) -> None:
        """Start a row of up to `most` tokens at the end or in place of a finished one.

        It begins with the first `length` tokens of the row `source`, or with any where these do not matter.
        """
        if row == len(self._rows):
            self._rows.append(self._place(most))
        elif self._shelf_for(most) is not self._rows[row].shelf:
            self._free([self._rows[row]])
            self._rows[row] = self._place(most)
        place = self._rows[row]
        if source is not None and source != row:
            Shelf.copy(self._rows[source], place, length)
        place.length, place.most = length, most

    def fork(self, row: int, n_written: int = 0) -> None:
        """Append a copy of `row`: its committed tokens, and the `n_written` uncommitted ones after them."""
        place = self._rows[row]
        made = self._place(place.most)
        Shelf.copy(place, made, place.length + n_written)
        made.length = place.length
        self._rows.append(made)

    def drop(self, row: int) -> None:
        """Remove a row: the last row takes its number, and the batch shrinks by one."""
        place, last = self._rows[row], self._rows.pop()
        if row < len(self._rows):
            self._rows[row] = last
        self._free([place])

    def rewind(self, row: int, length: int) -> None:
        """Truncate a row to its first `length` tokens: a draft model commits while it drafts, so rejection rewinds."""
        self._rows[row].length = min(self._rows[row].length, length)

    def clear(self) -> None:
        """Remove all rows; their buffers stay."""
        self._rows.clear()
        for shelf in self._shelves.values():
            shelf.rows.clear()
        self.withdraw_room()

    def release(self) -> None:
        """Remove all rows and give the buffers back: the cycle of cache and layers would keep them."""
        self.clear()
        self._shelves.clear()

    def trim(self) -> None:
        """Give back what no row uses."""
        if not self.keeps_place:
            self._shelves = {key: shelf for key, shelf in self._shelves.items() if shelf.n_needed}
            for shelf in self._shelves.values():
                if shelf.n_rows > shelf.n_needed:
                    shelf.resize(shelf.n_needed, shelf.capacity)

    def read(self, row: int, start: int, end: int) -> Slots:
        """Return a copy of a row's slots from `start` to before `end`."""
        place = self._rows[row]
        return {name: buffer[place.index, :, start:end].clone() for name, buffer in place.shelf.buffers.items()}

    def write(self, row: int, start: int, slots: Slots) -> None:
        """Write a copy into a row's slots from `start` on, without committing them. There must be room for it."""
        place = self._rows[row]
        for name, part in slots.items():
            place.shelf.buffer(name, part)[place.index, :, start : start + part.shape[1]] = part

    def _step(self, capacity: int) -> int:
        return -(-capacity // self.capacity_step) * self.capacity_step

    def _place(self, most: int) -> Place:
        """Return a new row."""
        shelf = self._shelf_for(most)
        if len(shelf.rows) >= shelf.n_rows:
            self.make_room(1, most)
        return shelf.add(most)

    def _shelf_for(self, most: int) -> Shelf:
        """Return the shelf for rows of up to `most` tokens."""
        if self.keeps_place:
            self.reserve(most)
            return self._shelves[0]
        capacity = shelf_capacity(most)
        if not (self._one_shelf and self._shelves):
            if capacity not in self._shelves:
                self._shelves[capacity] = self._new_shelf(capacity)
            return self._shelves[capacity]
        (shelf,) = self._shelves.values()
        if capacity > shelf.capacity:
            shelf.resize(shelf.n_rows, capacity)
            self._shelves = {capacity: shelf}
        return shelf

    def _new_shelf(self, capacity: int, n_rows: int = 0) -> Shelf:
        return Shelf(capacity, self.kinds, n_rows)

    def _rows_for(self, n: int, shelf: Shelf) -> int:
        """Return for how many rows to make buffers where `n` are in use.

        That is a power of two if there is memory for it, so that rows that come one by one are copied a few times only.
        """
        more = max(min(1 << (n - 1).bit_length(), self.max_rows), n)
        return more if self.may_take((more - shelf.n_rows) * shelf.capacity * self.slot_bytes) else n

    def _free(self, places: Sequence[Place]) -> None:
        for place in places:
            place.shelf.remove(place)
            if not self.keeps_place and not place.shelf.n_needed:
                del self._shelves[place.shelf.capacity]
