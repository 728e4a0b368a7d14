"""The ragged key-value cache: each row has its own length, and rejected tokens are rolled back by not committing them.

A row is a list of pages (`pages.py`). A forward writes row r's new keys and values from position `lens[r]` on; `commit`
then advances `lens[r]` by the number of accepted tokens. The rejected ones stay past the length, which attention never
reads and the next round overwrites, so that a rollback copies nothing.

Rows with the same beginning share its pages. A row that writes into a page that others have copies that page first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from decoding.memory.layout import Layout
from decoding.memory.pages import BufferSpecs, PagePool, count_pages, index_heads
from decoding.memory.table import PageTable
from decoding.state.row_lists import take_out
from kernels.registry import Scatter
from kernels.rows import find_slots
from kernels.upload import upload


def _index_copy(
    keys: torch.Tensor, values: torch.Tensor, new_keys: torch.Tensor, new_values: torch.Tensor, slot: torch.Tensor
) -> None:
    for buffer, states in ((keys, new_keys), (values, new_values)):
        _write(buffer, slot, states)


def _write(buffer: torch.Tensor, slot: torch.Tensor, states: torch.Tensor) -> None:
    """Write `states` [N, H, D] to their slots; to the last slot of all where one is -1."""
    index = index_heads(slot[None], buffer)
    buffer.view(-1, buffer.shape[3]).index_copy_(0, index.flatten(), states.transpose(0, 1).flatten(0, 1))


class RaggedLayer(CacheLayerMixin):
    """The keys and values of one layer."""

    is_compileable = True
    is_croppable = False
    is_sliding = False

    def __init__(self, cache: RaggedCache, index: int) -> None:
        super().__init__()
        self.cache = cache
        self._names = ("keys", index), ("values", index)
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: the pool has the buffers."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write packed states [1, Hkv, N, D] to their slots; return the pages of keys and values, [P, Hkv, size, D].

        A cache that `gathers` returns the rows of the forward instead, [R, Hkv, L, D].
        """
        pools = self.get_pools(key_states, value_states)
        layout = self.cache.layout
        self.cache.scatter(*pools, key_states[0].transpose(0, 1), value_states[0].transpose(0, 1), layout.slot)
        if self.cache.gathers:
            return layout.gather_pages(pools[0]), layout.gather_pages(pools[1])
        return pools

    @property
    def slot(self) -> torch.Tensor:
        """Where each token of the current forward is, int64 [N]."""
        return self.cache.layout.slot

    def get_pools(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the pages of keys and of values, [P, Hkv, size, D], for states like these [1, Hkv, N, D]."""
        if self._buffers is None:
            pool, names = self.cache.pool, self._names
            self._buffers = pool.buffer(names[0], keys), pool.buffer(names[1], values)
        return self._buffers

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the slots that a mask would cover. Our attention does not ask for a mask."""
        return self.get_max_length(), 0

    def get_seq_length(self) -> int:
        """Return the length of the longest row. Callers pass explicit positions, so that nothing depends on it."""
        return max(self.cache.lens, default=0)

    def get_max_length(self) -> int:
        """Return the most tokens that a row could have."""
        return self.cache.pool.n_pages * self.cache.pool.page_size


@dataclass(slots=True, eq=False)
class _RowPages:
    """The pages of a row, the first `n_shared` of which other rows may have, its length, and the most it may get."""

    pages: list[int]
    n_shared: int
    length: int
    max_tokens: int


class RaggedCache(Cache):
    """Up to `max_rows` rows of a batch: the committed length of each, and its pages in a pool.

    `scatter` writes keys and values, by default with PyTorch. Beside keys and values a caller may `record` states of
    each token; they lie in the same pages. With `gathers` a layer returns the keys and values of the rows in a forward
    instead of all pages: for models that compute with them before their attention.
    """

    def __init__(
        self,
        n_layers: int,
        max_rows: int,
        pool: PagePool,
        device: torch.device,
        *,
        max_tokens: int | None = None,
        scatter: Scatter | None = None,
        gathers: bool = False,
    ) -> None:
        """`max_tokens` is the most tokens of any row; by default all that the pool has."""
        self.pool = pool
        self.device = device
        self.max_rows = max_rows
        self.scatter: Scatter = scatter or _index_copy
        self.gathers = gathers
        size = pool.page_size
        width = min(pool.n_pages, pool.n_pages if max_tokens is None else count_pages(max_tokens, size))
        # One more: the padding of a captured round may lie past the end of a row.
        self.table = PageTable(max_rows, width + 1, device)
        self._rows: list[_RowPages] = []
        self._aside: list[_RowPages] = []
        self._layout: Layout | None = None
        super().__init__(layers=[RaggedLayer(self, i) for i in range(n_layers)])

    # What it holds ------------------------------------------------------------------------------------------------

    @property
    def lens(self) -> list[int]:
        """The committed tokens of each row."""
        return [row.length for row in self._rows]

    def get_buffer_specs(self) -> BufferSpecs:
        """Return what a token holds."""
        return {
            name: buffer.new_empty(buffer.shape[1], 0, buffer.shape[3]) for name, buffer in self.pool.buffers.items()
        }

    def max_tokens(self, row: int) -> int:
        """Return the most tokens that a row may get."""
        return self._rows[row].max_tokens

    def list_pages(self) -> list[Sequence[int]]:
        """Return the pages of each row; the rows that are set aside come last."""
        return [row.pages for row in (*self._rows, *self._aside)]

    # A forward ----------------------------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """The layout of the current forward. Raises RuntimeError outside of one."""
        if self._layout is None:
            raise RuntimeError("the cache was used outside a forward")
        return self._layout

    def begin(self, counts: Sequence[int], first_row: int = 0, *, whole: bool = False) -> Layout:
        """Lay out a forward that appends `counts[r]` tokens to each row from `first_row` on, without committing them.

        `whole` says that it has one row, all tokens of which will be committed; it matters to recurrent layers alone.
        Raises RuntimeError if a row would get more than its `max_tokens`.
        """
        self.prepare(counts, first_row)
        lens = [row.length for row in self._rows[first_row : first_row + len(counts)]]
        rows = slice(first_row, first_row + len(counts))
        slots = self._compute_slots(
            [(first_row + r, n, n + count) for r, (n, count) in enumerate(zip(lens, counts, strict=True))]
        )
        self._layout = Layout.build(lens, counts, self.device, slots, self.table.pages[rows], self.pool.page_size)
        return self._layout

    def prepare(self, counts: Sequence[int], first_row: int = 0) -> None:
        """Give each row from `first_row` on pages of its own for `counts[r]` more tokens.

        Raises RuntimeError if a row would get more than its most, OutOfPagesError.
        """
        for r, n in enumerate(counts, start=first_row):
            row = self._rows[r]
            if row.length + n > row.max_tokens:
                # A position past the end must not be clamped: that would overwrite a live slot.
                raise RuntimeError(f"cache overflow: {row.length + n} tokens, capacity {row.max_tokens}")
            if n:
                self._make_own(r, row, count_pages(row.length + n, self.pool.page_size))
        self.table.sync()

    def use(self, layout: Layout) -> None:
        """Use `layout` for the next forward. CUDA graphs need this, because their lengths are on the device."""
        self._layout = layout

    def commit(self, counts: Sequence[int], first_row: int = 0) -> None:
        """Advance each row from `first_row` on by its accepted tokens; the rest of the last forward is rolled back."""
        for row, n in zip(self._rows[first_row : first_row + len(counts)], counts, strict=True):
            row.length += n

    def _make_own(self, r: int, row: _RowPages, n_pages: int) -> None:
        """Let a row have `n_pages` pages, and to itself the ones from its length on."""
        pages, n_before = row.pages, len(row.pages)
        is_shared = row.length // self.pool.page_size < row.n_shared
        first_changed = self._leave_shared_pages(row) if is_shared else n_before
        try:
            while len(pages) < n_pages:
                pages.append(self.pool.take())
        finally:
            if first_changed < max(len(pages), n_before):
                self.table.write(r, pages, first_changed)

    def _leave_shared_pages(self, row: _RowPages) -> int:
        """Leave the pages past a row's length to others, and copy the one in which it ends; return the first changed.

        Past the length there is nothing to keep.
        """
        pool, pages = self.pool, row.pages
        last, n_in_last = divmod(row.length, pool.page_size)
        n_kept = min(last + (n_in_last > 0), len(pages))
        pool.give_back(pages[n_kept:])
        del pages[n_kept:]
        first_changed = n_kept
        if n_in_last and last < len(pages) and not pool.is_own(pages[last]):
            copied = pool.take()
            pool.copy(pages[last], copied)
            pool.give_back(pages[last:])
            pages[last] = copied
            first_changed = last
        row.n_shared = last  # only now: where no page was left for a copy, the row shares its last one still
        return first_changed

    def _compute_slots(self, spans: Sequence[tuple[int, int, int]]) -> torch.Tensor:
        """Return where the tokens of (row, start, end) are, int64 [N] in the order of the spans."""
        size, table = self.pool.page_size, self.table.host
        parts = []
        for row, start, end in spans:
            at = np.arange(start, end)
            parts.append(table[row, at // size] * np.int64(size) + at % size)
        found = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return upload(torch.from_numpy(found), self.device)

    def find_slots(self, row: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Return where tokens are, int64 [N], for graphs; -1 for what has no place."""
        slot = find_slots(self.table.pages, row, position, self.pool.page_size)
        return slot.masked_fill(slot < self.pool.page_size, -1)

    # Hidden states ------------------------------------------------------------------------------------------------

    def record(self, name: str, states: torch.Tensor) -> None:
        """Keep hidden states [N, F] of the tokens of the current forward in their rows' pages."""
        _write(self.pool.buffer(name, states[None]), self.layout.slot, states[:, None])

    def read_recorded(self, name: str, spans: Sequence[tuple[int, int, int]]) -> torch.Tensor:
        """Return the states [N, F] that were recorded under a name for the tokens of (row, start, end)."""
        return self.pool.flat(name)[self._compute_slots(spans)]

    # Rows ---------------------------------------------------------------------------------------------------------

    def start(self, row: int, max_tokens: int, length: int = 0, *, source: int | None = None) -> None:
        """Start a row of up to `max_tokens` tokens at the end or in place of a finished one.

        It begins with the first `length` tokens of the row `source`; without `source`, the contents are undefined.
        """
        pages = [] if source is None else self._share(source, length)
        self._place(row, _RowPages(pages, len(pages), length, max_tokens))
        if source is None and length:
            self._make_own(row, self._rows[row], count_pages(length, self.pool.page_size))

    def restore(self, row: int, tokens: Sequence[int]) -> int:
        """Let an empty row begin with what the pool knows of `tokens`; return how many it knows."""
        pages = self._known_pages(tokens)
        n = len(pages) * self.pool.page_size
        self._place(row, _RowPages(pages, len(pages), n, self._rows[row].max_tokens))
        return n

    def n_known(self, tokens: Sequence[int]) -> int:
        """Return how many of `tokens` a row would begin with."""
        return len(self._known_pages(tokens)) * self.pool.page_size

    def _known_pages(self, tokens: Sequence[int]) -> list[int]:
        return self.pool.find_known_pages(tokens)

    def keep(self, row: int, tokens: Sequence[int]) -> None:
        """Let later prompts find the full pages of `tokens`, all of which the row has."""
        place = self._rows[row]
        self.pool.keep(tokens, place.pages)
        place.n_shared = max(place.n_shared, len(tokens) // self.pool.page_size)

    def keep_prompt(self, row: int) -> None:
        """Let later rows start from this one's prompt. Does nothing: keys and values stay readable by position."""

    def fork(self, row: int, n_written: int = 0) -> None:
        """Append a copy of `row`: its committed tokens, and the `n_written` uncommitted ones after them."""
        place = self._rows[row]
        pages = self._share(row, place.length + n_written)
        self._place(len(self._rows), _RowPages(pages, len(pages), place.length, place.max_tokens))

    def drop(self, row: int) -> None:
        """Remove a row: the last row takes its number, and the batch shrinks by one."""
        self.pool.give_back(self._take_out(row).pages)

    def _take_out(self, row: int) -> _RowPages:
        place = take_out(self._rows, row)
        if row < len(self._rows):
            self.table.write(row, self._rows[row].pages)
        self.table.write(len(self._rows), [])
        return place

    def set_aside(self, row: int) -> None:
        """Take a row out of the batch, with all that it has, until `put_back`; the last row takes its number."""
        self._aside.append(self._take_out(row))

    def put_back(self) -> None:
        """Append the row that was last set aside."""
        self.table.write(len(self._rows), self._aside[-1].pages)
        self._rows.append(self._aside.pop())

    def rewind(self, row: int, length: int) -> None:
        """Truncate a row to its first `length` tokens: a draft model commits while it drafts, so rejection rewinds."""
        self._rows[row].length = min(self._rows[row].length, length)

    def clear(self) -> None:
        """Remove all rows, those set aside too."""
        while self._aside:
            self.put_back()
        while self._rows:
            self.drop(len(self._rows) - 1)

    def _share(self, row: int, length: int) -> list[int]:
        """Return the pages of the first `length` tokens of a row, which is no longer their only owner."""
        place = self._rows[row]
        pages = place.pages[: count_pages(length, self.pool.page_size)]
        place.n_shared = max(place.n_shared, len(pages))
        return pages

    def _place(self, r: int, row: _RowPages) -> None:
        """Put a row, whose pages it shares, at the end or in place of another one."""
        self.pool.share(row.pages)
        if r == len(self._rows):
            assert r < self.max_rows, "more rows than the cache was made for"
            self._rows.append(row)
        else:
            self.pool.give_back(self._rows[r].pages)
            self._rows[r] = row
        self.table.write(r, row.pages)
