"""Drafting as CUDA graphs: one step of the draft model draws a token for every row, and feeds the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.sampling import SamplingMode, choose_draft_mode, compute_draft_distribution
from decoding.attention.drawing_graphs import SamplingGraphs
from decoding.attention.graphs import forward, round_up_rows
from decoding.attention.runner import ModelRunner
from decoding.request import SamplingParams
from decoding.state.proposal import Proposal

# The most tokens that the first step feeds per row: the pending token and the draft model's own last draft.
FIRST_FEED = 2


class DraftGraphs(SamplingGraphs[ModelRunner]):
    """One step of the draft model as a graph, replayed k times; the drafts stay on the device."""

    widths = (FIRST_FEED, 1)

    def propose(
        self,
        unseen: Sequence[Sequence[int]],
        lengths: Sequence[int],
        seeds: Sequence[int],
        sampling: Sequence[SamplingParams],
    ) -> Proposal | None:
        """Return `lengths[r]` tokens per row after `unseen[r]`, left on the device; None when graphs do not work here.

        Commits the tokens it feeds.
        """
        # A row that does not draft takes part with a token that is never committed.
        feed = [tokens if length else [0] for tokens, length in zip(unseen, lengths, strict=True)]
        k = max(lengths)
        drawn = self.draft(feed, seeds, k, sampling)
        if drawn is None:
            return None
        counts = [len(fed) + k - 1 if length else 0 for fed, length in zip(feed, lengths, strict=True)]
        self.runner.cache.commit(counts)
        return self._build_proposal(lengths, *drawn, n_steps=k)

    def draft(
        self, feed: Sequence[Sequence[int]], seeds: Sequence[int], k: int, sampling: Sequence[SamplingParams]
    ) -> tuple[torch.Tensor, Distribution | None] | None:
        """Return k tokens for each row, int64 [n, k], and their distributions [n * k, C], both on the device.

        `feed` are the tokens of each row that the model has not seen, one or two. The distributions are None where the
        acceptance rule does not need them. Returns None when graphs do not work here.
        """
        n = len(feed)
        R, kind = round_up_rows(n), choose_draft_mode(sampling)
        idle = R - n
        self.runner.cache.prepare([len(tokens) + k - 1 for tokens in feed])
        draws = self._build_draw_inputs(R, seeds, sampling)
        values: dict[str, Any] = draws | {
            "ids": [[*tokens, *[0] * (FIRST_FEED - len(tokens))] for tokens in feed] + [[0] * FIRST_FEED] * idle,
            "read": [*map(len, feed), *[1] * idle],
            "length": [*self.runner.cache.lens, *[0] * idle],
        }
        tokens, dists = [], []
        for step in range(k):
            out = self._step(R, 1 if step else FIRST_FEED, kind, values)
            if out is None:
                return None
            drawn, length, *dist = out
            # The next replay of the same graph writes where this one wrote.
            tokens.append(drawn[:n].clone())
            dists.append([t[:n].clone() for t in dist])
            values = {"ids": drawn, "length": length}
            if step == 0:
                values |= draws | {"read": [1] * R}
        if not self.rule.needs_q:
            return torch.cat(tokens, dim=1), None
        ids, logp = (torch.stack(each, dim=1).flatten(0, 1) for each in zip(*dists, strict=True))
        return torch.cat(tokens, dim=1), Distribution(ids, logp)

    def _get_shapes(self, R: int, T: int) -> dict[str, tuple[int, ...]]:
        return {"ids": (R, T)}

    def _compute(self, inputs: dict[str, torch.Tensor], T: int, kind: SamplingMode) -> tuple[torch.Tensor, ...]:
        """Return the tokens drawn [R, 1], the lengths after what was fed [R], and ids and logp.

        The last two, [R, C] each, only where the acceptance rule needs them.
        """
        row = torch.arange(len(inputs["ids"]), device=self.runner.device)
        logits = forward(self.runner, inputs["ids"], inputs["length"], row * T + inputs["read"] - 1)
        length = inputs["length"] + inputs["read"]
        dist = compute_draft_distribution(logits, kind, inputs["limits"])
        drawn = self._draw(dist, inputs["seeds"], length)
        return (drawn, length, *((dist.ids, dist.logp) if self.rule.needs_q else ()))
