"""The ragged key-value cache: every row has its own length, and rolling back is not committing.

Each layer owns static buffers `[B, Hkv, S, D]`. A forward writes row r's new keys and values at its slots
`lens[r] ...`; `commit` then advances `lens[r]` by what was accepted. Rejected tokens stay behind as garbage past the
length: attention never reads them and the next round overwrites them, so a rollback copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from decoding.layout import Layout


class RaggedLayer(CacheLayerMixin):
    """Keys and values of one layer, `[B, Hkv, S, D]` each; made on first use, when the shapes are known."""

    is_compileable = True
    is_croppable = False
    is_sliding = False

    def __init__(self, cache: RaggedCache) -> None:
        super().__init__()
        self.cache = cache

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Make zeroed buffers for states of shape [1, Hkv, N, D]."""
        # NOTE zeros, not empty: masked slots still take part in 0 * value, and 0 * NaN is NaN.
        B, S = self.cache.max_rows, self.cache.capacity
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
        self.keys[layout.row, :, layout.position] = key_states[0].transpose(0, 1)
        self.values[layout.row, :, layout.position] = value_states[0].transpose(0, 1)
        return self.keys[: layout.n_rows], self.values[: layout.n_rows]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Slots a mask would cover; our attention masks by length and asks for none."""
        return self.cache.capacity, 0

    def get_seq_length(self) -> int:
        """Longest committed row; callers pass explicit positions, so this is information only."""
        return max(self.cache.lens, default=0)

    def get_max_length(self) -> int:
        """Slots per row."""
        return self.cache.capacity


class RaggedCache(Cache):
    """All layers' buffers for up to `max_rows` rows of up to `capacity` tokens, and the rows' committed lengths."""

    def __init__(self, n_layers: int, max_rows: int, capacity: int) -> None:
        self.max_rows = max_rows
        self.capacity = capacity
        self.lens: list[int] = []
        self._layout: Layout | None = None
        super().__init__(layers=[RaggedLayer(self) for _ in range(n_layers)])

    @property
    def layout(self) -> Layout:
        """The packing of the forward under way."""
        if self._layout is None:
            raise RuntimeError("the cache was used outside a forward")
        return self._layout

    def begin(self, counts: Sequence[int], device: torch.device) -> Layout:
        """Lay out a forward that brings `counts[r]` tokens per row; nothing is committed by it."""
        layout = Layout.build(self.lens, counts, device)
        if layout.longest > self.capacity:
            # Clamping an index here would silently overwrite live slots.
            raise RuntimeError(f"cache overflow: {layout.longest} tokens, capacity {self.capacity}")
        self._layout = layout
        return layout

    def commit(self, counts: Sequence[int]) -> None:
        """Advance each row by the tokens that stay; the rest of what the last forward wrote is forgotten."""
        self.lens = [length + n for length, n in zip(self.lens, counts, strict=True)]

    def expand(self, n: int) -> None:
        """Give the one prefilled row to n rows, copying its committed slots once."""
        (length,) = self.lens
        for layer in self.layers:
            if layer.is_initialized:
                layer.keys[1:n, :, :length] = layer.keys[0, :, :length]
                layer.values[1:n, :, :length] = layer.values[0, :, :length]
        self.lens = [length] * n

    def fork(self, row: int) -> None:
        """Give a new last row a copy of `row`: what is committed and what the last forward wrote behind it."""
        twin = len(self.lens)
        length = self.lens[row] + self.layout.counts[row]
        self._copy(row, twin, length)
        self.lens.append(self.lens[row])

    def drop(self, row: int) -> None:
        """Forget a row: the last one moves into its place (one row's copy), and the batch shrinks by one."""
        last = len(self.lens) - 1
        length = self.lens[last]
        if row != last:
            self._copy(last, row, length)
            self.lens[row] = length
        self.lens.pop()

    def _copy(self, source: int, target: int, length: int) -> None:
        for layer in self.layers:
            if layer.is_initialized:
                layer.keys[target, :, :length] = layer.keys[source, :, :length]
                layer.values[target, :, :length] = layer.values[source, :, :length]

    def rewind(self, row: int, length: int) -> None:
        """Cut a row back to its first `length` tokens, so that a waiting sample can start from its prompt."""
        self.lens[row] = min(self.lens[row], length)

    @property
    def n_bytes(self) -> int:
        """Bytes held by the buffers."""
        return sum(
            t.numel() * t.element_size()
            for layer in self.layers
            if layer.is_initialized
            for t in (layer.keys, layer.values)
        )
