"""Models that keep their own attention: one forward per row, each over a cache of its own.

Architectures such as CodeGen, GPT-J, Falcon or BLOOM compute attention inside their layers, where a ragged batch is not
possible. Each of their rows runs alone, so a round reads the weights once per row instead of once: slower, and the same
tokens. A rollback is a commit left out: tokens beyond the committed length of a row are cut off before its next
forward.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any, cast

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from decoding.attention.backends import OWN, get_backend
from decoding.attention.runner import ModelRunner
from decoding.memory.cache import RaggedCache
from decoding.memory.pages import BufferSpecs, PagePool
from kernels.upload import upload


class RowCaches(RaggedCache):
    """The book-keeping of `RaggedCache` over one cache of transformers per row."""

    def __init__(self, max_rows: int, pool: PagePool, device: torch.device, max_tokens: int) -> None:
        super().__init__(0, max_rows, pool, device, max_tokens=max_tokens)
        self._caches: list[DynamicCache] = []

    def get_committed(self, row: int) -> DynamicCache:
        """Return the row's cache with its committed tokens only."""
        cache = self._caches[row]
        for layer in cache.layers:
            if type(layer) is not DynamicLayer:
                raise RuntimeError("its cache cannot be cut back to the tokens that stay")
            if layer.is_initialized:
                layer.keys = layer.keys[..., : self.lens[row], :]
                layer.values = layer.values[..., : self.lens[row], :]
        return cache

    def get_buffer_specs(self) -> BufferSpecs:
        """Return what a token of the first row holds, by which pages are counted: the states lie in the row's cache."""
        return {
            (name, i): held.new_empty(held.shape[1], 0, held.shape[3])
            for i, layer in enumerate(self._caches[0].layers)
            for name, held in (("keys", layer.keys), ("values", layer.values))
        }

    def n_known(self, tokens: Sequence[int]) -> int:
        """Return 0: nothing of earlier prompts is kept."""
        return 0

    def restore(self, row: int, tokens: Sequence[int]) -> int:
        """Return 0: nothing of earlier prompts is kept."""
        return 0

    def keep(self, row: int, tokens: Sequence[int]) -> None:
        """Keep nothing for later prompts: these caches have no pages to share."""

    def start(self, row: int, max_tokens: int, length: int = 0, *, source: int | None = None) -> None:
        """Begin a row, the next one or one that is over, with the first `length` tokens of the row `source`."""
        super().start(row, max_tokens, length, source=source)
        self._caches[row : row + 1] = [DynamicCache() if source is None else self._copy_row(source)]

    def fork(self, row: int, n_written: int = 0) -> None:
        """Append a copy of a row."""
        super().fork(row, n_written)
        self._caches.append(self._copy_row(row))

    def drop(self, row: int) -> None:
        """Forget a row; the last one takes its number."""
        super().drop(row)
        last = self._caches.pop()
        if row < len(self._caches):
            self._caches[row] = last

    def _copy_row(self, source: int) -> DynamicCache:
        # A layer joins new keys to the old ones in a new tensor: copies share the old ones; `get_committed` cuts them.
        twin = DynamicCache()
        twin.layers = [copy.copy(layer) for layer in self._caches[source].layers]
        return twin


class RowByRowRunner(ModelRunner):
    """Runs a causal LM with its own attention, one row after the other."""

    def __init__(self, model: PreTrainedModel, vocab_size: int, max_rows: int, **options: Any) -> None:
        """`options` are passed to `ModelRunner`."""
        super().__init__(model, vocab_size, max_rows, **options)
        self.cache = RowCaches(max_rows, self.cache.pool, self.device, self.max_tokens)
        self._selects = "logits_to_keep" in inspect.signature(model.forward).parameters

    @torch.inference_mode()
    def forward(
        self,
        tokens: Sequence[Sequence[int]],
        *,
        n_last: Sequence[int] | None = None,
        first_row: int = 0,
        whole: bool = False,
    ) -> torch.Tensor:
        """Return logits as `ModelRunner.forward` does; with `n_last` the logits of a row without tokens are zero."""
        caches = cast("RowCaches", self.cache)
        caches.begin([len(row) for row in tokens], first_row)
        parts: dict[int, torch.Tensor] = {}
        for r, row in enumerate(tokens):
            if row:
                ids = upload([row], self.device)
                n = len(row) if n_last is None else n_last[r]
                keep = {"logits_to_keep": n} if self._selects else {}
                # No mask and no positions: the model takes both from the length of the row's cache.
                logits = self.model(
                    ids, past_key_values=caches.get_committed(first_row + r), use_cache=True, **keep
                ).logits[0]
                parts[r] = logits[-n:, : self.vocab_size]
        if n_last is not None:
            any_part = next(iter(parts.values()))
            for r, n in enumerate(n_last):
                parts.setdefault(r, any_part.new_zeros(n, self.vocab_size))
        return torch.cat([parts[r] for r in sorted(parts)])


def make_runner(model: PreTrainedModel, vocab_size: int, max_rows: int, **options: Any) -> ModelRunner:
    """Return what runs a model: packed over the ragged cache, or row by row where it keeps its own attention."""
    kind = RowByRowRunner if get_backend(model) == OWN else ModelRunner
    return kind(model, vocab_size, max_rows, **options)


@torch.inference_mode()
def measure_cache(runner: ModelRunner) -> tuple[BufferSpecs, int]:
    """Return what a token holds in the cache of a new runner, and the bytes of a row's recurrent states, 0 without any.

    A forward of one token shows both.
    """
    runner.cache.start(0, 1)
    runner.forward([[0]])
    states = runner.cache.pool.states
    return runner.cache.get_buffer_specs(), 0 if states is None else states.slot_bytes
