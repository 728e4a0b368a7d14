"""The draft model over its cache: draws a few tokens for every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from decoding.acceptance.distribution import Distribution
from decoding.attention.draft_graphs import FIRST_FEED, DraftGraphs
from decoding.attention.drafting import DraftSampler, sample_drafts
from decoding.attention.runner import ModelRunner
from decoding.request import SamplingParams
from decoding.state.proposal import Proposal


class DraftRunner(DraftSampler[ModelRunner, DraftGraphs]):
    """Draws tokens by one step of the draft model each."""

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
        if self.graphs is not None:
            unseen = self._feed_all_but_last(unseen, lengths)
            proposal = self.graphs.propose(unseen, lengths, seeds, sampling)
            if proposal is not None:
                return proposal
        first = [length + len(tokens) for length, tokens in zip(self.cache.lens, unseen, strict=True)]
        return sample_drafts(DraftSteps(self.runner, unseen), first, lengths, seeds, sampling, self._rule)

    def _feed_all_but_last(self, unseen: list[list[int]], lengths: Sequence[int]) -> list[list[int]]:
        """Feed the tokens that exceed a graph, after rounds in which others drafted; return the rest."""
        behind = [
            tokens[:-1] if length and len(tokens) > FIRST_FEED else []
            for tokens, length in zip(unseen, lengths, strict=True)
        ]
        if any(behind):
            self.runner.forward(behind, n_last=[1] * len(behind))
            self.cache.commit([len(tokens) for tokens in behind])
        return [tokens[len(fed) :] for tokens, fed in zip(unseen, behind, strict=True)]


@dataclass(frozen=True, slots=True)
class DraftSteps:
    """A forward of the model for each step, which commits what it reads."""

    runner: ModelRunner
    unseen: list[list[int]]

    @property
    def device(self) -> torch.device:
        """The device of its logits."""
        device: torch.device = self.runner.device
        return device

    def logits(self, step: int, rows: Sequence[int], drafts: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the logits of the next token of some rows, and commit what it feeds."""
        feed: list[list[int]] = [[] for _ in drafts]
        for r in rows:
            feed[r] = [drafts[r][-1]] if step else self.unseen[r]
        logits = self.runner.forward(feed, n_last=[1] * len(feed))[list(rows)]
        self.runner.cache.commit([len(tokens) for tokens in feed])
        return logits

    def target_ids(self, q: Distribution) -> Distribution:
        """Return `q`: it has the target's tokens."""
        return q
