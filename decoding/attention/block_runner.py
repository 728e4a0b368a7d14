"""A trained drafter over its own ragged cache: the target's states as keys and values, and a block after them.

Slot t of its cache holds what the head makes of the target's states of position t, for positions that the target has
read. Nothing else is ever committed: a block is written after them and forgotten with the round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch

from decoding.acceptance.distribution import Distribution
from decoding.attention.backends import attend
from decoding.attention.prefill import Prefill, PrefillPart
from decoding.attention.ragged import MaskStore
from decoding.attention.runner import ModelRunner
from decoding.attention.taps import TAPS
from decoding.costs import PromptCost
from decoding.memory.cache import RaggedCache
from decoding.memory.layout import Layout
from decoding.memory.pages import PagePool
from decoding.models.threads import use_all_threads
from decoding.models.trained_heads import LoadedHead
from kernels.upload import upload


class BlockRunner:
    """Runs a head beside the runner of its target, for as long as that has its cache."""

    def __init__(
        self, loaded: LoadedHead, target: ModelRunner, cost: PromptCost | None = None, pool: PagePool | None = None
    ) -> None:
        """`target` has to record the head's taps; `cost` learns what a token of a prompt costs; `pool` has pages."""
        self.head = loaded.head
        self.name = f"the trained drafter of {target.name}"
        n_layers = loaded.head.shape.layer.num_hidden_layers
        own = target.cache
        self.cache = RaggedCache(
            n_layers,
            own.max_rows,
            pool or PagePool(own.pool.n_pages, own.pool.page_size),
            target.device,
            max_tokens=target.max_tokens,
            scatter=target.cache.scatter,
        )
        self._loaded = loaded
        self.target = target
        self._ids = loaded.head.token_ids
        self._mask = self.embed(upload([self.head.shape.mask_token], target.device))[0]
        self._cost = cost or PromptCost()

    @property
    def device(self) -> torch.device:
        """The device that it runs on."""
        device: torch.device = self.target.device
        return device

    @property
    def read_by_target(self) -> list[int]:
        """How many tokens of each row the target has read."""
        return self.target.cache.lens

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the embeddings [N, H] of the target's tokens [N]."""
        embedded: torch.Tensor = self._loaded.embedding(tokens).to(self.head.norm.weight.dtype)
        return embedded

    def start(self, row_index: int, tokens: Sequence[int], source: int | None) -> Prefill:
        """Begin a row that holds the prompt `tokens`, once the target has begun it.

        What the target leaves to the first round, and the last position that it reads, are left for the first draft,
        which needs the features of that position.
        """
        n, max_tokens = max(len(tokens) - 2, 0), self.target.cache.max_tokens(row_index)
        if source is not None:
            self.cache.start(row_index, max_tokens, min(n, self.cache.lens[source]), source=source)
            return Prefill()
        self.cache.start(row_index, max_tokens)

        @use_all_threads()  # a head is dense
        def read(row: int, start: int, end: int) -> None:
            self.read([end - start], row)

        chunk = self.target.prefill_chunk
        readable = lambda row: self.read_by_target[row]  # noqa: E731
        return Prefill(PrefillPart(read, 0, n, chunk, self._cost.token, self.device, readable))

    def read(self, counts: Sequence[int], first_row: int = 0) -> torch.Tensor:
        """Read the target's states of the next `counts[r]` positions of each row, and commit them.

        Returns the features [R', H] of the last of them, of the rows that have some.
        """
        ends = zip(self.cache.lens[first_row:], counts, strict=False)
        spans = [(row, start, start + n) for row, (start, n) in enumerate(ends, start=first_row) if n]
        layout = self.cache.begin(counts, first_row)
        features = self.write_context(layout, self.head.features(self.target.cache.read_recorded(TAPS, spans)))
        self.cache.commit(counts, first_row)
        last = [end - 1 for end, n in zip(accumulate(counts), counts, strict=True) if n]
        return features[upload(last, self.device)]

    def features_at(self, row: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Return the features [N, H] of positions that the target has read, in a graph."""
        cache = self.target.cache
        return self.head.features(cache.pool.flat(TAPS)[cache.find_slots(row, position)])

    def write_context(self, layout: Layout, features: torch.Tensor) -> torch.Tensor:
        """Write what the layers attend to at the positions of a layout, whose features these are; return them."""
        for kv_layer, (_, k, v) in zip(
            self.cache.layers, self.head.context(features, *self.head.rotary(layout.position)), strict=True
        ):
            kv_layer.update(k.transpose(0, 1)[None], v.transpose(0, 1)[None])
        return features

    def run_block(
        self, anchors: torch.Tensor, features: torch.Tensor, layout: Layout, end: torch.Tensor
    ) -> torch.Tensor:
        """Return the states [M, K, H] of the masks after the last tokens `anchors` [M].

        `features` [M, H] belong to the positions before them. `layout`, the cache's, has a block of each of these
        rows; `end` [M] is the position of its last mask, up to which every position of the block attends.
        """
        head = self.head
        x = head.inputs(self.embed(anchors), features, self._mask)
        rotary = head.rotary(layout.position)
        last, masks, scale = end.repeat_interleave(head.shape.block), MaskStore(), head.shape.layer.head_dim**-0.5
        seen = replace(layout, rows=replace(layout.rows, position=last))
        for i, kv_layer in enumerate(self.cache.layers):
            q, k, v = head.compute_qkv(i, x, *rotary)
            keys, values = kv_layer.update(k.transpose(0, 1)[None], v.transpose(0, 1)[None])
            attended = attend(self.target.backend, q, keys, values, seen, masks, scale)
            x = head.finish(i, x, attended.flatten(1))
        return head.outputs(x)

    def target_ids(self, q: Distribution) -> Distribution:
        """Return distributions [N, C] over the head's own tokens as ones over the target's; padding stays negative."""
        return Distribution(torch.where(q.ids < 0, q.ids, self._ids[q.ids.clamp(min=0)]), q.logp)
