"""A trained drafter's pass as a CUDA graph: reads the target's states, then draws all tokens of a block."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.sampling import SamplingMode, choose_draft_mode, compute_draft_distribution
from decoding.attention.block_runner import BlockRunner
from decoding.attention.drawing_graphs import SamplingGraphs
from decoding.attention.graphs import build_uniform_layout, round_up_rows
from decoding.request import SamplingParams
from decoding.state.proposal import Proposal


class BlockGraphs(SamplingGraphs[BlockRunner]):
    """A whole pass as one graph; the drafts stay on the device."""

    widths = (2, 4, 8)  # positions beyond these are read without a graph (`_read_all_but_last`)

    def propose(
        self,
        pending: Sequence[int],
        unread: Sequence[int],
        lengths: Sequence[int],
        seeds: Sequence[int],
        sampling: Sequence[SamplingParams],
    ) -> Proposal | None:
        """Return `lengths[r]` tokens per row after `pending[r]`, left on the device; None when graphs do not work here.

        Commits the `unread[r]` positions that it reads, at least one of a row with a length.
        """
        n, k = len(pending), max(lengths)
        R = round_up_rows(n)
        idle = R - n
        T = next(size for size in self.widths if max(unread) <= size)
        # A row that does not draft takes part with a position that is never committed.
        self.runner.cache.prepare([max(count, 1) + self.runner.head.shape.block for count in unread])
        values = self._build_draw_inputs(R, seeds, sampling) | {
            "pending": [*pending, *[0] * idle],
            "read": [*(max(count, 1) for count in unread), *[1] * idle],
            "length": [*self.runner.cache.lens, *[0] * idle],
        }
        out = self._step(R, T, choose_draft_mode(sampling), values)
        if out is None:
            return None
        self.runner.cache.commit(unread)
        tokens, *dist = (t[:n, :k].clone() for t in out)
        return self._build_proposal(
            lengths, tokens, Distribution(*(t.flatten(0, 1) for t in dist)) if dist else None, 1
        )

    def _get_shapes(self, R: int, T: int) -> dict[str, tuple[int, ...]]:
        return {"pending": (R,)}

    def _compute(self, inputs: dict[str, torch.Tensor], T: int, kind: SamplingMode) -> tuple[torch.Tensor, ...]:
        """Return the tokens drawn [R, K], and where the acceptance rule needs them ids and logp, [R, K, C] each."""
        runner, head = self.runner, self.runner.head
        pending, read, length = inputs["pending"], inputs["read"], inputs["length"]
        R, B = len(pending), head.shape.block
        packed = torch.arange(R * T, device=pending.device)
        row = packed[:R]
        layout = build_uniform_layout(runner.cache, R, T, length)
        runner.cache.use(layout)
        features = runner.write_context(layout, runner.features_at(packed // T, layout.position))[row * T + read - 1]
        end = length + read
        layout = build_uniform_layout(runner.cache, R, B, end)
        runner.cache.use(layout)
        states = runner.run_block(pending, features, layout, end + B - 1)
        base = head.logits(states)
        before, tokens, dists = pending, [], []
        for step in range(head.n_proposed):
            logits = head.add_markov_logits(base[:, step], states[:, step], runner.embed(before))
            dist = runner.target_ids(compute_draft_distribution(logits, kind, inputs["limits"]))
            drawn = self._draw(dist, inputs["seeds"], end + 1 + step)
            before = drawn[:, 0]
            tokens.append(drawn)
            dists.append(dist)
        drafts = torch.cat(tokens, dim=1)
        if not self.rule.needs_q:
            return (drafts,)
        return drafts, torch.stack([d.ids for d in dists], dim=1), torch.stack([d.logp for d in dists], dim=1)
