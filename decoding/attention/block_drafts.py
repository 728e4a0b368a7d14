"""The drafts of a trained head: one pass over a block after each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from decoding.acceptance.distribution import Distribution
from decoding.attention.block_graphs import BlockGraphs
from decoding.attention.block_runner import BlockRunner
from decoding.attention.drafting import DraftSampler, sample_drafts
from decoding.models.threads import use_all_threads
from decoding.request import SamplingParams
from decoding.state.proposal import Proposal
from kernels.upload import upload


class BlockSampler(DraftSampler[BlockRunner, BlockGraphs]):
    """Draws the tokens of a block, by one pass of the head."""

    @use_all_threads()  # a head is dense: its products are long, and no graph of 8-bit weights runs beside them
    @torch.inference_mode()
    def draft(
        self,
        pending: Sequence[int],
        lengths: Sequence[int],
        seeds: Sequence[int],
        sampling: Sequence[SamplingParams],
    ) -> Proposal:
        """Return `lengths[r]` draft tokens per row after `pending[r]`, its last token, which no model has read.

        Commits what the head reads of the target's states.
        """
        runner = self.runner
        for r, (read, length) in enumerate(zip(runner.read_by_target, lengths, strict=True)):
            if length:
                # A round is made again if its verify failed. The block needs the features of the position before it.
                self.cache.rewind(r, read - 1)
        unread = [
            read - own if length else 0
            for read, own, length in zip(runner.read_by_target, self.cache.lens, lengths, strict=True)
        ]
        if self.graphs is not None:
            unread = self._read_all_but_last(unread, self.graphs.widths[-1])
            proposal = self.graphs.propose(pending, unread, lengths, seeds, sampling)
            if proposal is not None:
                return proposal
        first = [read + 1 for read in runner.read_by_target]
        done = self.run_blocks(pending, unread, lengths)
        proposal = sample_drafts(done, first, lengths, seeds, sampling, self._rule)
        return replace(proposal, confidence=done.confidence(lengths), n_steps=1)

    def run_blocks(self, pending: Sequence[int], unread: Sequence[int], lengths: Sequence[int]) -> _Pass:
        """Read what is new in each row and pass over a block of the rows with a length, without a graph."""
        runner = self.runner
        features = runner.read(unread)
        block = runner.head.shape.block
        layout = runner.cache.begin([block if length else 0 for length in lengths])
        drawing = [r for r, length in enumerate(lengths) if length]
        anchors = upload([pending[r] for r in drawing], runner.device)
        end = upload([runner.cache.lens[r] + block - 1 for r in drawing], runner.device)
        states = runner.run_block(anchors, features, layout, end)[:, : max(lengths)]
        return _Pass(runner, {r: at for at, r in enumerate(drawing)}, states, runner.head.logits(states), pending)

    def _read_all_but_last(self, unread: Sequence[int], n: int) -> list[int]:
        """Read the positions that exceed a graph, after rounds in which others drafted; return how many are left."""
        behind = [max(count - n, 0) for count in unread]
        if any(behind):
            self.runner.read(behind)
        return [count - read for count, read in zip(unread, behind, strict=True)]


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass over the blocks of some rows, of which the tokens are still to be drawn."""

    runner: BlockRunner
    at: dict[int, int]  # of each row that drafts its place among them
    states: torch.Tensor  # [M, K, H]
    base: torch.Tensor  # [M, K, n_drafted]
    pending: Sequence[int]

    @property
    def device(self) -> torch.device:
        return self.runner.device

    def logits(self, step: int, rows: Sequence[int], drafts: Sequence[Sequence[int]]) -> torch.Tensor:
        at = upload([self.at[r] for r in rows], self.device)
        before = upload([drafts[r][-1] if step else self.pending[r] for r in rows], self.device)
        return self.runner.head.add_markov_logits(self.base[at, step], self.states[at, step], self.runner.embed(before))

    def target_ids(self, q: Distribution) -> Distribution:
        return self.runner.target_ids(q)

    def confidence(self, lengths: Sequence[int]) -> list[list[float]] | None:
        chances = self.runner.head.confidence(self.states)
        if chances is None:
            return None
        each = chances.tolist()
        return [each[self.at[r]][:length] if length else [] for r, length in enumerate(lengths)]
