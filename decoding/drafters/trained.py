"""Drafts from a head that was trained for the target and reads its hidden states."""

from __future__ import annotations

from collections.abc import Sequence

from decoding.attention.block_drafts import BlockSampler
from decoding.attention.prefill import Prefill
from decoding.state.proposal import MODEL_EVIDENCE, Proposal
from decoding.state.row import Row


class TrainedDrafter:
    """Runs the head once a round, a small part of a forward of the target."""

    draws_tokens = True

    def __init__(self, drafts: BlockSampler) -> None:
        self._drafts = drafts

    def start(self, row_index: int, row: Row, source: int | None) -> Prefill:
        """Read the prompt, once the target has."""
        return self._drafts.start(row_index, row.tokens, source)

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Draw up to `lengths[r]` tokens per row, and no more than a block has."""
        longest = self._drafts.longest
        lengths = [min(k, longest) if self._drafts.can_draft(row_index) else 0 for row_index, k in enumerate(lengths)]
        if not any(lengths):
            return Proposal([[] for _ in rows], [MODEL_EVIDENCE] * len(rows))
        # The samples of a row share its draft, which is drawn with the noise of the first.
        pending, seeds = [row.tokens[-1] for row in rows], [row.seeds[0] for row in rows]
        return self._drafts.draft(pending, lengths, seeds, [row.sampling for row in rows])

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Do nothing: what was accepted is read in the next round, with the target's states."""

    def fork(self, row_index: int, row: Row) -> None:
        """Copy the row's cache."""
        self._drafts.cache.fork(row_index)

    def drop(self, row_index: int) -> None:
        """Move the last row's cache into its place."""
        self._drafts.cache.drop(row_index)

    def set_aside(self, row_index: int) -> None:
        """Set the row's cache aside."""
        self._drafts.cache.set_aside(row_index)

    def put_back(self) -> None:
        """Append that row's cache."""
        self._drafts.cache.put_back()
