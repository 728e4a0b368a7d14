"""A trained drafter over its own ragged cache: reads the target's tapped states and the tokens after them.

Slot t of its cache belongs to the pair of the token at t + 1 and the feature of position t. The features of committed
positions come from the target's cache, where the forwards of the target leave them; while drafting, they are the head's
own outputs. So a row always has one pair less than tokens, and drafts are forgotten after every round.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch

from decoding.acceptance.distribution import Distribution
from decoding.attention.prefill import Prefill, Reading
from decoding.attention.ragged import MaskStore, ragged_cache_attention
from decoding.attention.runner import ModelRunner
from decoding.attention.taps import TAPS
from decoding.costs.timer import CostTimer
from decoding.memory.cache import RaggedCache
from decoding.memory.layout import Layout
from decoding.models.threads import all_threads
from decoding.models.trained_heads import LoadedHead


class HeadRunner:
    """Runs a head beside the runner of its target, for as long as that has its cache."""

    def __init__(self, loaded: LoadedHead, target: ModelRunner, token_timer: CostTimer | None = None) -> None:
        """`target` has to record the head's taps; `token_timer` learns what a token of a prompt costs."""
        self.head = loaded.head
        self.name = f"the trained drafter of {target.name}"
        own = target.cache
        self.cache = RaggedCache(1, own.max_rows, keeps_place=own.keeps_place, capacity_step=own.capacity_step)
        self._embedding = loaded.embedding
        self._target = target
        self._ids = loaded.head.token_ids
        self._token_timer = token_timer or CostTimer()

    @property
    def device(self) -> torch.device:
        """The device that it runs on."""
        device: torch.device = self._target.device
        return device

    def start(self, slot: int, tokens: Sequence[int], source: int | None) -> Prefill:
        """Begin a row that holds the prompt `tokens`, once the target has begun it.

        What the target leaves to the first round, and the last pair, are left for the first draft, which needs the
        head's output there.
        """
        n_pairs, most = max(len(tokens) - 2, 0), self._target.cache.most(slot)
        if source is not None:
            self.cache.start(slot, most, min(n_pairs, self.cache.lens[source]), source=source)
            return Prefill()
        self.cache.start(slot, most, room=len(tokens) - 1)

        @all_threads()  # a head is dense
        def read(start: int, end: int) -> None:
            self.read([tokens[start + 1 : end + 1]], slot)

        known_end = lambda: self._target.cache.lens[slot]  # noqa: E731 (what the target has read then)
        chunk = self._target.prefill_chunk
        return Prefill(Reading(read, 0, n_pairs, chunk, self._token_timer, self.device, known_end))

    def prepare(self) -> None:
        """Make the buffers that steps read and write, before these are captured."""
        self.cache.reserve(self._target.cache.capacity)
        shape = self.head.shape
        blank = self.blank_features(1).new_zeros(1, shape.target_width * len(shape.taps))
        self._target.cache.prepare_states(TAPS, blank)

    def read(self, tokens: Sequence[Sequence[int]], first_slot: int = 0) -> torch.Tensor:
        """Read `tokens[r]` with the target's states before them; return the output [R', H] of each row's last."""
        lens = self.cache.lens[first_slot:]
        states = [
            self._target.cache.states(TAPS, r)[n : n + len(own)]
            for r, (own, n) in enumerate(zip(tokens, lens, strict=False), start=first_slot)
        ]
        return self.step(tokens, self.head.features(torch.cat(states)), first_slot)

    def step(self, tokens: Sequence[Sequence[int]], features: torch.Tensor, first_slot: int = 0) -> torch.Tensor:
        """Read `tokens[r]`, packed with `features` [N, H], and commit them; return the output of each row's last."""
        counts = [len(row) for row in tokens]
        layout = self.cache.begin(counts, self.device, first_slot)
        packed = torch.tensor([t for row in tokens for t in row], device=self.device)
        last = [end - 1 for end, n in zip(accumulate(counts), counts, strict=True) if n]
        output = self.outputs(packed, features, layout, torch.tensor(last, device=self.device))
        self.cache.commit(counts, first_slot)
        return output

    def outputs(self, packed: torch.Tensor, features: torch.Tensor, layout: Layout, keep: torch.Tensor) -> torch.Tensor:
        """Return the head's outputs [R, H] at the positions `keep` of packed tokens [N] with features [N, H]."""
        head = self.head
        embedded = self._embedding(packed).to(features.dtype)
        residual, (q, k, v) = head.heads(embedded, features, *head.rotary(layout.position))
        keys, values = self.cache.layers[0].update(k.transpose(0, 1)[None], v.transpose(0, 1)[None])
        scale, backend = head.midlayer.self_attn.scaling, self._target.backend
        if layout.rows.host is None:  # in a graph, where lengths are on the device alone
            attended = backend.load()(q, keys, values, layout.rows, scale)
        else:
            queries = q.transpose(0, 1)[None]
            result, _ = ragged_cache_attention(head, queries, keys, values, None, scale, None, layout, MaskStore())
            attended = result[0]
        return head.finish(residual[keep], attended.flatten(1)[keep])

    def features_at(self, slot: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Return the features [N, H] of positions that the target has read, in a graph."""
        return self.head.features(self._target.cache.states_of_all(TAPS)[slot, position])

    def blank_features(self, n: int) -> torch.Tensor:
        """Return a buffer for the features of `n` positions, [n, H]."""
        weight = self.head.norm.weight
        return torch.zeros(n, len(weight), dtype=weight.dtype, device=self.device)

    def target_ids(self, q: Distribution) -> Distribution:
        """Return distributions [N, C] over the head's own tokens as ones over the target's; padding stays negative."""
        return Distribution(torch.where(q.ids < 0, q.ids, self._ids[q.ids.clamp(min=0)]), q.logp)
