"""Drafting as CUDA graphs: a step of the draft model draws a token for every row, which feeds the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from decoding.attention.drawing_graphs import SamplingGraphs
from decoding.attention.graphs import forward, round_up_rows
from decoding.attention.runner import ModelRunner
from decoding.request import SamplingParams
from decoding.state.proposal import Proposal

# The most tokens that the first step feeds per row: the pending token and the draft model's own last draft.
FIRST_FEED = 2
# The most steps of a graph. To capture all lengths takes 36 steps for each number of rows; up to 32 it would take 528.
_MOST_STEPS = 8


class DraftGraphs(SamplingGraphs[ModelRunner]):
    """All steps of the draft model as one graph, by their number; a draft beyond eight tokens goes on in another."""

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
        return self._build_proposal(lengths, drawn, n_steps=k)

    def draft(
        self, feed: Sequence[Sequence[int]], seeds: Sequence[int], k: int, sampling: Sequence[SamplingParams]
    ) -> list[torch.Tensor] | None:
        """Return k tokens for each row, int64 [n, k], and where the rule needs them their distributions (`_join`).

        `feed` are the tokens of each row that the model has not seen, one or two. Returns None when graphs do not work
        here.
        """
        n = len(feed)
        R = round_up_rows(n)
        idle = R - n
        self.runner.cache.prepare([len(tokens) + k - 1 for tokens in feed])
        values: dict[str, Any] = self._build_draw_inputs(R, seeds, sampling) | {
            "ids": [[*tokens, *[0] * (FIRST_FEED - len(tokens))] for tokens in feed] + [[0] * FIRST_FEED] * idle,
            "read": [*map(len, feed), *[1] * idle],
            "length": [*self.runner.cache.lens, *[0] * idle],
        }
        parts = []
        for start in range(0, k, _MOST_STEPS):
            out = self._step((R, min(k - start, _MOST_STEPS), self._is_whole(sampling)), values)
            if out is None:
                return None
            tokens, *q, length = out
            # The next replay may write where this one wrote.
            parts.append([each[:n].clone() for each in (tokens, *q)])
            values |= {"ids": tokens[:, -1:], "read": [1] * R, "length": length}
        return [torch.cat(each, dim=1) for each in zip(*parts, strict=True)]

    def _list_sizes(self, longest_draft: int) -> Sequence[int]:
        return range(min(longest_draft, _MOST_STEPS), 0, -1)

    def _get_shapes(self, R: int) -> dict[str, tuple[int, ...]]:
        return {"ids": (R, FIRST_FEED)}

    def _compute(self, inputs: dict[str, torch.Tensor], size: int, *, is_whole: bool) -> tuple[torch.Tensor, ...]:
        """Return what `size` steps draw (`_join`), and the lengths [R] after what they were fed."""
        ids, read, length = inputs["ids"], inputs["read"], inputs["length"]
        row = torch.arange(len(ids), device=self.runner.device)
        drawn = []
        for _ in range(size):
            logits = forward(self.runner, ids, length, row * ids.shape[1] + read - 1)
            length = length + read
            drawn.append(self._draw(logits, inputs, length, is_whole=is_whole))
            ids, read = drawn[-1][0][:, None], torch.ones_like(read)
        return (*self._join(drawn, is_whole=is_whole), length)
