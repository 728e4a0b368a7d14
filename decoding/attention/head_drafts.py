"""Draws the drafts of a trained head, by CUDA graphs if it has some and they work."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from decoding.acceptance.distribution import Distribution, join
from decoding.acceptance.rule import AcceptanceRule
from decoding.acceptance.sampling import to_distributions
from decoding.attention.head_graphs import HeadGraphs
from decoding.attention.head_runner import HeadRunner
from decoding.attention.prefill import Prefill
from decoding.memory.cache import RaggedCache
from decoding.models.threads import all_threads
from decoding.request import SamplingParams
from decoding.state.proposal import MODEL_EVIDENCE, Proposal


class HeadDrafts:
    """Draws a few tokens for every row with the noise that the acceptance rule asks for."""

    def __init__(self, runner: HeadRunner, rule: AcceptanceRule, graphs: HeadGraphs | None = None) -> None:
        self._runner = runner
        self._rule = rule
        self._graphs = graphs

    @property
    def cache(self) -> RaggedCache:
        """The keys and values of all rows."""
        return self._runner.cache

    def start(self, slot: int, tokens: Sequence[int], source: int | None) -> Prefill:
        """Begin a row; the result reads its prompt."""
        return self._runner.start(slot, tokens, source)

    @all_threads()  # a head is dense: its products are long, and no graph of 8-bit weights runs beside them
    @torch.inference_mode()
    def draft(
        self,
        unseen: Sequence[Sequence[int]],
        lengths: Sequence[int],
        seeds: Sequence[int],
        sampling: Sequence[SamplingParams],
    ) -> Proposal:
        """Return `lengths[r]` draft tokens per row after `unseen[r]`, the tokens of the pairs it has not read yet.

        A row with a length has at least one such token. Commits the pairs it reads; the caller rewinds the cache to the
        committed pairs after the round.
        """
        if self._graphs is not None:
            unseen = self._read_all_but_last(unseen, lengths, self._graphs.first_feeds[-1])
            proposal = self._graphs.propose(unseen, lengths, seeds, sampling)
            if proposal is not None:
                return proposal
        runner, n_rows, k = self._runner, len(unseen), max(lengths)
        drafts: list[list[int]] = [[] for _ in unseen]
        parts: list[tuple[torch.Tensor, Distribution]] = []
        output, drew = torch.empty(0), list[int]()
        for step in range(k):
            drawing = [r for r, length in enumerate(lengths) if length > step]
            if step:
                own = output[[drew.index(r) for r in drawing]]
                feed = [drafts[r][-1:] if length > step else [] for r, length in enumerate(lengths)]
                output = runner.step(feed, runner.head.next_features(own))
            else:
                output = runner.read([tokens if lengths[r] else [] for r, tokens in enumerate(unseen)])
            drew = drawing
            q = runner.target_ids(to_distributions(runner.head.logits(output), [sampling[r] for r in drawing]))
            positions = torch.tensor([self.cache.lens[r] + 1 for r in drawing], device=runner.device)
            row_seeds = torch.tensor([seeds[r] for r in drawing], device=runner.device)
            drawn = q.sample(row_seeds, positions, self._rule.draft_role)
            for r, token in zip(drawing, drawn.tolist(), strict=True):
                drafts[r].append(token)
            parts.append((torch.tensor([r * k + step for r in drawing], device=runner.device), q))
        return Proposal(drafts, [MODEL_EVIDENCE] * n_rows, join(parts, n_rows * k) if self._rule.needs_q else None)

    def _read_all_but_last(
        self, unseen: Sequence[Sequence[int]], lengths: Sequence[int], n: int
    ) -> list[Sequence[int]]:
        """Read the tokens that exceed a graph, after rounds in which others drafted; return the last `n`."""
        behind = [tokens[:-n] if length else [] for tokens, length in zip(unseen, lengths, strict=True)]
        if any(behind):
            self._runner.read(behind)
        return [tokens[len(read) :] for tokens, read in zip(unseen, behind, strict=True)]
