"""The ragged key-value cache: each row has its own length, and rejected tokens are rolled back by not committing them.

Each layer owns buffers `[B, Hkv, S, D]`, one for the rows of each capacity (`shelf.py`). A forward writes row r's new
keys and values from slot `lens[r]` on; `commit` then advances `lens[r]` by the number of accepted tokens. The rejected
ones stay in slots past the length, which attention never reads and the next round overwrites, so that a rollback copies
nothing.

A row begins in a shelf that holds what it has to read, and moves to a larger one as it grows. So a row takes memory for
its own length, whatever the other rows of its batch are, and attention reads each shelf only as far as its rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from decoding.memory.layout import Layout, padded_slots
from decoding.memory.shelf import Place, Shelf, Slots, shelf_capacity
from kernels.kv_scatter import kv_scatter

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
        keys, values = zip(*(self._write(group, key_states, value_states) for group in groups), strict=True)
        return (keys, values) if len(groups) > 1 else (keys[0], values[0])

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
        if self.cache.uses_kernel:
            kv_scatter(keys, values, new_keys, new_values, group.slot, group.position)
        else:
            keys[group.slot, :, group.position] = new_keys
            values[group.slot, :, group.position] = new_values
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
    longest needs it: for models that compute with the keys of all rows at once. `uses_kernel` writes keys and values in
    one launch of the Triton kernel instead of two of PyTorch. Beside keys and values a caller may `record` states
    of each token; they follow the rows as keys do. `may_take` is asked before a shelf takes more bytes than its rows
    need.
    """

    def __init__(
        self,
        n_layers: int,
        max_rows: int,
        *,
        uses_kernel: bool = False,
        keeps_place: bool = False,
        capacity_step: int = 1,
        one_shelf: bool = False,
    ) -> None:
        self.max_rows = max_rows
        self.keeps_place = keeps_place
        self.capacity_step = capacity_step
        self.one_shelf = one_shelf
        self.uses_kernel = uses_kernel
        self.may_take: Callable[[int], bool] = lambda _n_bytes: True
        self._shelves: dict[int, Shelf] = {}
        self._rows: list[Place] = []
        self._layout: Layout | None = None
        self._slot_bytes = 0
        if keeps_place:
            self._shelves[0] = Shelf(0, max_rows)
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
        """The bytes of one token of one row; 0 before anything was written."""
        self._slot_bytes = max(self._slot_bytes, self._slot_bytes_now())
        return self._slot_bytes

    def _slot_bytes_now(self) -> int:
        return max((shelf.slot_bytes for shelf in self._shelves.values()), default=0)

    @property
    def n_moves(self) -> int:
        """How often the buffers of a cache that keeps its place have moved."""
        return self._shelves[0].n_moves

    @property
    def capacity(self) -> int:
        """The slots of the longest row that there are buffers for."""
        return max((shelf.capacity for shelf in self._shelves.values()), default=0)

    def slots_for(self, n_rows: int, most: int) -> int:
        """Return the slots that `n_rows` rows take once they have `most` tokens."""
        return self.max_rows * padded_slots(self._step(most)) if self.keeps_place else n_rows * shelf_capacity(most)

    def most(self, row: int) -> int:
        """Return the most tokens that a row may get."""
        return self._rows[row].most

    def shelf(self, key: int) -> Shelf:
        """Return a shelf by its key, `Layout.shelf`."""
        return self._shelves[key]

    # A forward ----------------------------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """The layout of the current forward. Raises RuntimeError outside of one."""
        if self._layout is None:
            raise RuntimeError("the cache was used outside a forward")
        return self._layout

    def begin(self, counts: Sequence[int], device: torch.device, first_slot: int = 0) -> Layout:
        """Lay out a forward that appends `counts[r]` tokens to each row from `first_slot` on, without committing them.

        Rows that outgrow their shelf move to a larger one. Raises RuntimeError if a row would get more than its most.
        """
        rows = self._rows[first_slot : first_slot + len(counts)]
        for row, n in zip(rows, counts, strict=True):
            if row.length + n > row.most:
                # An index past the end must not be clamped: that would overwrite a live slot.
                raise RuntimeError(f"cache overflow: {row.length + n} tokens, capacity {row.most}")
        self._grow([row for row, n in zip(rows, counts, strict=True) if row.length + n > row.shelf.capacity], counts)
        places = [(row.shelf.capacity if not self.keeps_place else 0, row.index) for row in rows]
        self._layout = Layout.build([row.length for row in rows], counts, device, places)
        return self._layout

    def use(self, layout: Layout) -> None:
        """Use `layout` for the next forward. CUDA graphs need this, because their lengths are on the device."""
        self._layout = layout

    def commit(self, counts: Sequence[int], first_slot: int = 0) -> None:
        """Advance each row from `first_slot` on by its accepted tokens; the rest of the last forward is rolled back."""
        for row, n in zip(self._rows[first_slot:], counts, strict=False):
            row.length += n

    # Hidden states ------------------------------------------------------------------------------------------------

    def record(self, name: str, states: torch.Tensor) -> None:
        """Keep hidden states [N, F] of the tokens of the current forward in their rows' slots."""
        for group in self.layout.groups:
            own = states if group.tokens is None else states[group.tokens]
            buffer = self._shelves[group.shelf].buffer(name, states[None])
            buffer[group.slot, 0, group.position] = own

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

    def make_room(self, n_tokens: int, most: int) -> None:
        """Make room for one more row that begins with `n_tokens`."""
        self._free([self._place(min(n_tokens, most), most)])

    def start(self, row: int, most: int, length: int = 0, *, source: int | None = None, room: int = 0) -> None:
        """Start a row at the end or in place of a finished one, with the first `length` tokens of the row `source`.

        It may get up to `most` tokens, and has `room` for some of them at once.
        """
        if source is None or source != row:
            first = room if source is None else self._rows[source].length
            made = self._place(min(max(first, length), most), most)
            if source is not None:
                Shelf.copy(self._rows[source], made, length)
            replaced = self._rows[row : row + 1]
            self._rows[row : row + 1] = [made]
            self._free(replaced)
        self._rows[row].length, self._rows[row].most = length, most

    def fork(self, row: int, n_written: int = 0) -> None:
        """Append a copy of `row`: its committed tokens, and the `n_written` uncommitted ones after them."""
        place = self._rows[row]
        made = self._place(place.length + n_written, place.most, place.shelf)
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

    def release(self) -> None:
        """Remove all rows and give the buffers back: the cycle of cache and layers would keep them."""
        self.clear()
        self._shelves.clear()

    def trim(self) -> None:
        """Give back what no row uses."""
        if not self.keeps_place:
            for shelf in self._shelves.values():
                if shelf.n_rows > len(shelf.rows):
                    shelf.resize(len(shelf.rows), shelf.capacity)
            self._shelves = {key: shelf for key, shelf in self._shelves.items() if shelf.rows}

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

    def _place(self, n_tokens: int, most: int, shelf: Shelf | None = None) -> Place:
        """Return a new row for `n_tokens`, in `shelf` if it is given."""
        if self.keeps_place:
            self.reserve(most)
            shelf = self._shelves[0]
        elif shelf is None:
            shelf = self._shelf_for(n_tokens)
        n = len(shelf.rows) + 1
        if n > shelf.n_rows:
            shelf.resize(self._rows_for(n, shelf), shelf.capacity)
        if not self.keeps_place:
            self._shelves[shelf.capacity] = shelf  # if it is new, or was given back because it was empty
        return shelf.add(most)

    def _shelf_for(self, n_tokens: int) -> Shelf:
        """Return the shelf for a new row of `n_tokens`."""
        capacity = shelf_capacity(n_tokens)
        if not (self.one_shelf and self._shelves):
            return self._shelves.get(capacity) or Shelf(capacity)
        (shelf,) = self._shelves.values()
        if capacity > shelf.capacity:
            shelf.resize(shelf.n_rows, capacity)
            self._shelves = {capacity: shelf}
        return shelf

    def _rows_for(self, n: int, shelf: Shelf) -> int:
        """Return for how many rows to make buffers where `n` are in use.

        That is a power of two if there is memory for it, so that rows that come one by one are copied a few times only.
        """
        more = max(min(1 << (n - 1).bit_length(), self.max_rows), n)
        return more if self.may_take((more - shelf.n_rows) * shelf.capacity * self.slot_bytes) else n

    def _grow(self, rows: Sequence[Place], counts: Sequence[int]) -> None:
        """Move rows to shelves in which there is room for as many more tokens as a forward may bring."""
        left = []
        for row in rows:
            if self.one_shelf:  # all rows grow
                self._shelf_for(min(row.length + max(counts), row.most))
                continue
            made = self._place(min(row.length + max(counts), row.most), row.most)
            Shelf.copy(row, made, row.length)
            made.length = row.length
            row.swap(made)  # the row stays the same object, so that its number leads to where it is now
            left.append(made)
        # From the last to the first, so that no row is moved within the shelf that it leaves.
        self._free(sorted(left, key=lambda place: -place.index))

    def _free(self, places: Sequence[Place]) -> None:
        for place in places:
            place.shelf.remove(place)
            if not self.keeps_place and not place.shelf.rows:
                _ = self.slot_bytes  # which is remembered
                del self._shelves[place.shelf.capacity]
