"""A trained drafter over its own ragged cache: reads the target's tapped states, and draws a few tokens for every row.

Slot t of its cache belongs to the pair of the token at t + 1 and the feature of position t. The features of committed
positions come from the target's cache, where the forwards of the target leave them; while drafting, they are the head's
own outputs. So a row always has one pair less than tokens, and what was drafted is forgotten after every round.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch

from decoding.acceptance.distribution import Distribution, join
from decoding.acceptance.rule import AcceptanceRule
from decoding.acceptance.sampling import to_distributions
from decoding.attention.cache import RaggedCache
from decoding.attention.ragged import MaskStore, ragged_cache_attention
from decoding.attention.runner import Ahead, ModelRunner
from decoding.attention.taps import TAPS
from decoding.models.heads import LoadedHead
from decoding.request import SamplingParams
from decoding.state.clock import CostTimer
from decoding.state.proposal import MODEL_EVIDENCE, Proposal

# The tokens of a prompt that are read at once: the deadline is checked in between.
_PIECE = 512


class HeadRunner:
    """Runs a head beside the runner of its target, for the length of one batch."""

    def __init__(self, loaded: LoadedHead, target: ModelRunner, rule: AcceptanceRule) -> None:
        """`target` has to record the head's taps."""
        self._head = head = loaded.head
        self._embedding = loaded.embedding
        self._target = target
        self._rule = rule
        self._ids = head.token_ids
        self._timer = CostTimer()
        self.cache = RaggedCache(1, target.cache.max_rows)

    def start(self, slot: int, tokens: Sequence[int], capacity: int, source: int | None) -> Iterator[Ahead]:
        """Begin a row that holds the prompt `tokens`, once the target has read all but the last of them.

        Its last pair is left for the first draft, which needs the head's output there. The caller iterates over the
        result, as in `ModelRunner.start`.
        """
        self.cache.reserve(capacity)
        n_pairs = max(len(tokens) - 2, 0)
        if source is not None:
            self.cache.start(slot, n_pairs, source)
            return iter(())
        self.cache.start(slot)
        return self._prefill(slot, tokens, n_pairs)

    @torch.inference_mode()
    def _prefill(self, slot: int, tokens: Sequence[int], n_pairs: int) -> Iterator[Ahead]:
        for at in range(0, n_pairs, _PIECE):
            n = min(_PIECE, n_pairs - at)
            yield Ahead(n * self._timer.expected_s, (n_pairs - at) * self._timer.least_s)
            started = time.perf_counter()
            self._read([tokens[at + 1 : at + 1 + n]], slot)
            self._timer.observe((time.perf_counter() - started) / n)

    @torch.inference_mode()
    def draft(
        self,
        unseen: Sequence[Sequence[int]],
        lengths: Sequence[int],
        seeds: Sequence[int],
        sampling: Sequence[SamplingParams],
    ) -> Proposal:
        """Return `lengths[r]` draft tokens per row behind `unseen[r]`, the tokens of the pairs it has not read yet.

        A row with a length has at least one such token.

        Commits what it reads; the caller rewinds the cache to the committed pairs after the round.
        """
        n_rows, k = len(unseen), max(lengths)
        drafts: list[list[int]] = [[] for _ in unseen]
        parts: list[tuple[torch.Tensor, Distribution]] = []
        device = self._target.device
        output, drew = torch.empty(0), list[int]()
        for step in range(k):
            drawing = [r for r, length in enumerate(lengths) if length > step]
            if step:
                own = output[[drew.index(r) for r in drawing]]
                feed = [drafts[r][-1:] if length > step else [] for r, length in enumerate(lengths)]
                output = self._step(feed, self._head.next_features(own))
            else:
                output = self._read([tokens if lengths[r] else [] for r, tokens in enumerate(unseen)], 0)
            drew = drawing
            q = self._target_ids(to_distributions(self._head.logits(output), [sampling[r] for r in drawing]))
            positions = torch.tensor([self.cache.lens[r] + 1 for r in drawing], device=device)
            drawn = q.sample(torch.tensor([seeds[r] for r in drawing], device=device), positions, self._rule.draft_role)
            for r, token in zip(drawing, drawn.tolist(), strict=True):
                drafts[r].append(token)
            parts.append((torch.tensor([r * k + step for r in drawing], device=device), q))
        return Proposal(drafts, [MODEL_EVIDENCE] * n_rows, join(parts, n_rows * k) if self._rule.needs_q else None)

    def _read(self, tokens: Sequence[Sequence[int]], first_slot: int) -> torch.Tensor:
        """Read `tokens[r]` with the target's states before them; return the output [R', H] of each row's last."""
        taps = self._target.cache.states[TAPS]
        lens = self.cache.lens[first_slot : first_slot + len(tokens)]
        states = torch.cat(
            [taps[first_slot + r, n : n + len(own)] for r, (own, n) in enumerate(zip(tokens, lens, strict=True))]
        )
        return self._step(tokens, self._head.features(states), first_slot)

    def _step(self, tokens: Sequence[Sequence[int]], features: torch.Tensor, first_slot: int = 0) -> torch.Tensor:
        """Read `tokens[r]`, packed with `features` [N, H], and commit them; return the output of each row's last."""
        head, counts = self._head, [len(row) for row in tokens]
        layout = self.cache.begin(counts, self._target.device, first_slot)
        packed = torch.tensor([t for row in tokens for t in row], device=self._target.device)
        embedded = self._embedding(packed).to(features.dtype)
        cos, sin = head.rotary(layout.position)
        residual, heads = head.heads(embedded, features, cos, sin)
        q, k, v = (part.transpose(0, 1)[None] for part in heads)
        keys, values = self.cache.layers[0].update(k, v)
        attention = head.midlayer.self_attn
        attended, _ = ragged_cache_attention(
            attention, q, keys, values, None, attention.scaling, None, layout, MaskStore()
        )
        self.cache.commit(counts, first_slot)
        last = [end - 1 for end, n in zip(accumulate(counts), counts, strict=True) if n]
        return head.finish(residual[last], attended[0].flatten(1)[last])

    def _target_ids(self, q: Distribution) -> Distribution:
        """The distributions [N, C] over the head's own tokens as ones over the target's; padding stays negative."""
        return Distribution(torch.where(q.ids < 0, q.ids, self._ids[q.ids.clamp(min=0)]), q.logp)
