"""A trained drafter's pass as a CUDA graph: reads the target's states, then draws all tokens of a block."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from decoding.acceptance.rule import AcceptanceRule
from decoding.attention.block_runner import BlockRunner
from decoding.attention.drawing_graphs import SamplingGraphs
from decoding.attention.graphs import build_uniform_layout, round_up_rows
from decoding.request import SamplingParams
from decoding.state.proposal import Proposal


class BlockGraphs(SamplingGraphs[BlockRunner]):
    """A whole pass as one graph; the drafts stay on the device."""

    widths = (2, 4, 8)
    """How many positions of each row it may read; the rest is read without a graph (`_read_all_but_last`)."""

    def __init__(self, runner: BlockRunner, rule: AcceptanceRule) -> None:
        super().__init__(runner, rule, runner.head.token_ids)

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
        out = self._step((R, T, self._is_whole(sampling)), values)
        if out is None:
            return None
        self.runner.cache.commit(unread)
        return self._build_proposal(lengths, [each[:n, :k].clone() for each in out], n_steps=1)

    def _list_sizes(self, longest_draft: int) -> Sequence[int]:
        return self.widths[::-1]

    def _get_shapes(self, R: int) -> dict[str, tuple[int, ...]]:
        return {"pending": (R,)}

    def _compute(self, inputs: dict[str, torch.Tensor], size: int, *, is_whole: bool) -> tuple[torch.Tensor, ...]:
        runner, head, T = self.runner, self.runner.head, size
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
        before, drawn = pending, []
        for step in range(head.n_proposed):
            logits = head.add_markov_logits(base[:, step], states[:, step], runner.embed(before))
            drawn.append(self._draw(logits, inputs, end + 1 + step, is_whole=is_whole))
            before = drawn[-1][0]
        return self._join(drawn, is_whole=is_whole)
