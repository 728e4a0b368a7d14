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
from decoding.attention.prefill import Prefill, Reading
from decoding.attention.ragged import MaskStore, attend_rows, by_group
from decoding.attention.runner import ModelRunner
from decoding.attention.taps import TAPS
from decoding.costs.costs import PromptCost
from decoding.memory.cache import Held, RaggedCache
from decoding.memory.layout import Layout
from decoding.models.threads import all_threads
from decoding.models.trained_heads import LoadedHead


class BlockRunner:
    """Runs a head beside the runner of its target, for as long as that has its cache."""

    def __init__(self, loaded: LoadedHead, target: ModelRunner, cost: PromptCost | None = None) -> None:
        """`target` has to record the head's taps; `cost` learns what a token of a prompt costs."""
        self.head = loaded.head
        self.name = f"the trained drafter of {target.name}"
        n_layers = loaded.head.shape.layer.num_hidden_layers
        own = target.cache
        self.cache = RaggedCache(
            n_layers,
            own.max_rows,
            scatter=target.backend.load_scatter() if target.backend.takes_any_rows else None,
            keeps_place=own.keeps_place,
            capacity_step=own.capacity_step,
        )
        self._loaded = loaded
        self._target = target
        self._ids = loaded.head.token_ids
        self._mask = self.embedded(torch.tensor([self.head.shape.mask_token], device=target.device))[0]
        self._cost = cost or PromptCost()

    @property
    def device(self) -> torch.device:
        """The device that it runs on."""
        device: torch.device = self._target.device
        return device

    @property
    def read_by_target(self) -> list[int]:
        """How many tokens of each row the target has read: all but the last."""
        return self._target.cache.lens

    def embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the embeddings [N, H] of the target's tokens [N]."""
        embedded: torch.Tensor = self._loaded.embedding(tokens).to(self.head.norm.weight.dtype)
        return embedded

    def start(self, slot: int, tokens: Sequence[int], source: int | None) -> Prefill:
        """Begin a row that holds the prompt `tokens`, once the target has begun it.

        What the target leaves to the first round, and the last position that it reads, are left for the first draft,
        which needs the features of that position.
        """
        n, most = max(len(tokens) - 2, 0), self._target.cache.most(slot)
        if source is not None:
            self.cache.start(slot, most, min(n, self.cache.lens[source]), source=source)
            return Prefill()
        self.cache.start(slot, most)

        @all_threads()  # a head is dense
        def read(start: int, end: int) -> None:
            self.read([end - start], slot)

        chunk = self._target.prefill_chunk
        readable = lambda: self.read_by_target[slot]  # noqa: E731
        return Prefill(Reading(read, 0, n, chunk, self._cost.token, self.device, readable))

    def prepare(self) -> None:
        """Make the buffers that a pass reads and writes, before it is captured."""
        self.cache.reserve(self._target.cache.capacity)
        width = self.head.shape.layer.hidden_size * len(self.head.shape.taps)
        self._target.cache.prepare_states(TAPS, self._mask.new_zeros(1, width))

    def read(self, counts: Sequence[int], first_slot: int = 0) -> torch.Tensor:
        """Read the target's states of the next `counts[r]` positions of each row, and commit them.

        Returns the features [R', H] of the last of them, of the rows that have some.
        """
        spans = zip(self.cache.lens[first_slot:], counts, strict=False)
        layout = self.cache.begin(counts, self.device, first_slot)
        states = [
            self._target.cache.states(TAPS, row)[start : start + n]
            for row, (start, n) in enumerate(spans, start=first_slot)
            if n
        ]
        features = self.keep(layout, self.head.features(torch.cat(states)))
        self.cache.commit(counts, first_slot)
        last = [end - 1 for end, n in zip(accumulate(counts), counts, strict=True) if n]
        return features[torch.tensor(last, device=self.device)]

    def features_at(self, slot: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Return the features [N, H] of positions that the target has read, in a graph."""
        return self.head.features(self._target.cache.states_of_all(TAPS)[slot, position])

    def keep(self, layout: Layout, features: torch.Tensor) -> torch.Tensor:
        """Write what the layers attend to at the positions of a layout, whose features these are; return them."""
        for slots, (_, k, v) in zip(
            self.cache.layers, self.head.context(features, *self.head.rotary(layout.position)), strict=True
        ):
            slots.update(k.transpose(0, 1)[None], v.transpose(0, 1)[None])
        return features

    def block(self, anchors: torch.Tensor, features: torch.Tensor, layout: Layout, end: torch.Tensor) -> torch.Tensor:
        """Return the states [M, K, H] of the masks after the last tokens `anchors` [M].

        `features` [M, H] belong to the positions before them. `layout`, the cache's, has a block of each of these
        rows; `end` [M] is the position of its last mask, up to which all of the block see.
        """
        head = self.head
        x = head.inputs(self.embedded(anchors), features, self._mask)
        rotary = head.rotary(layout.position)
        last, masks = end.repeat_interleave(head.shape.block), MaskStore()
        for i, slots in enumerate(self.cache.layers):
            q, k, v = head.read(i, x, *rotary)
            keys, values = slots.update(k.transpose(0, 1)[None], v.transpose(0, 1)[None])
            x = head.finish(i, x, self._attend(q, keys, values, layout, last, masks).flatten(1))
        return head.outputs(x)

    def _attend(
        self, q: torch.Tensor, keys: Held, values: Held, layout: Layout, end: torch.Tensor, masks: MaskStore
    ) -> torch.Tensor:
        """Return [N, Hq, D] of queries [N, Hq, D], each of which sees its row up to its position in `end` [N]."""
        scale, backend = self.head.shape.layer.head_dim**-0.5, self._target.backend

        def attend(group: Layout, own: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            position = end if group.tokens is None else end[group.tokens]
            seen = replace(group, rows=replace(group.rows, position=position))
            # In a graph lengths are on the device alone, out of the sight of masks.
            if backend.takes_any_rows or seen.rows.host is None:
                return backend.load()(own.transpose(0, 1), k, v, seen.rows, scale)
            mask = masks.get(seen, own.shape[0] // k.shape[1], None, own.dtype)
            return attend_rows(own, k, v, seen, mask, scale)

        return by_group(layout, q.transpose(0, 1), keys, values, attend)

    def target_ids(self, q: Distribution) -> Distribution:
        """Return distributions [N, C] over the head's own tokens as ones over the target's; padding stays negative."""
        return Distribution(torch.where(q.ids < 0, q.ids, self._ids[q.ids.clamp(min=0)]), q.logp)
