"""The draft model over its cache: draws a few tokens for every row."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from decoding.acceptance.distribution import Distribution, join
from decoding.acceptance.rule import AcceptanceRule
from decoding.acceptance.sampling import to_distributions
from decoding.attention.draft_graphs import FIRST_FEED, DraftGraphs
from decoding.attention.prefill import Prefill
from decoding.attention.runner import ModelRunner
from decoding.memory.cache import RaggedCache
from decoding.request import SamplingParams
from decoding.state.proposal import MODEL_EVIDENCE, Proposal


class DraftRunner:
    """Draws drafts with the noise that the acceptance rule asks for, by CUDA graphs if it has some and they work."""

    def __init__(self, runner: ModelRunner, rule: AcceptanceRule, graphs: DraftGraphs | None = None) -> None:
        self._runner = runner
        self._rule = rule
        self._graphs = graphs

    @property
    def cache(self) -> RaggedCache:
        """The keys and values of all rows."""
        return self._runner.cache

    def start(
        self, slot: int, tokens: Sequence[int], capacity: int, source: int | None, *, prefix_cache: bool
    ) -> Prefill:
        """Begin a row; the result prefills it."""
        return self._runner.start(slot, tokens, capacity, source, prefix_cache=prefix_cache)

    def draft(
        self,
        unseen: list[list[int]],
        lengths: Sequence[int],
        seeds: Sequence[int],
        sampling: Sequence[SamplingParams],
    ) -> Proposal:
        """Return `lengths[r]` draft tokens per row after `unseen[r]`, tokens that the model has not been fed yet.

        Commits the tokens it feeds; the caller rewinds the cache after the acceptance.
        """
        if self._graphs is not None:
            unseen = self._feed_all_but_last(unseen, lengths)
            proposal = self._graphs.propose(unseen, lengths, seeds, sampling)
            if proposal is not None:
                return proposal
        return self._draft_by_forward(unseen, lengths, seeds, sampling)

    def _draft_by_forward(
        self,
        unseen: list[list[int]],
        lengths: Sequence[int],
        seeds: Sequence[int],
        sampling: Sequence[SamplingParams],
    ) -> Proposal:
        runner, cache, n_rows, k = self._runner, self.cache, len(unseen), max(lengths)
        drafts: list[list[int]] = [[] for _ in unseen]
        parts: list[tuple[torch.Tensor, Distribution]] = []
        for step in range(k):
            drawing = [r for r, length in enumerate(lengths) if length > step]
            feed: list[list[int]] = [[] for _ in unseen]
            for r in drawing:
                feed[r] = drafts[r][-1:] if step else unseen[r]
            logits = runner.forward(feed, n_last=[1] * len(feed))[drawing]
            cache.commit([len(tokens) for tokens in feed])
            q = to_distributions(logits, [sampling[r] for r in drawing])
            positions = torch.tensor([cache.lens[r] for r in drawing], device=runner.device)
            row_seeds = torch.tensor([seeds[r] for r in drawing], device=runner.device)
            drawn = q.sample(row_seeds, positions, self._rule.draft_role).tolist()
            for r, token in zip(drawing, drawn, strict=True):
                drafts[r].append(token)
            parts.append((torch.tensor([r * k + step for r in drawing], device=runner.device), q))
        return Proposal(drafts, [MODEL_EVIDENCE] * n_rows, join(parts, n_rows * k) if self._rule.needs_q else None)

    def _feed_all_but_last(self, unseen: list[list[int]], lengths: Sequence[int]) -> list[list[int]]:
        """Feed the tokens that exceed a graph, after rounds in which others drafted; return the rest."""
        behind = [
            tokens[:-1] if length and len(tokens) > FIRST_FEED else []
            for tokens, length in zip(unseen, lengths, strict=True)
        ]
        if any(behind):
            self._runner.forward(behind, n_last=[1] * len(behind))
            self.cache.commit([len(tokens) for tokens in behind])
        return [tokens[len(fed) :] for tokens, fed in zip(unseen, behind, strict=True)]
