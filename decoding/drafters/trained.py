"""Drafts from a head that was trained for the target and reads its hidden states."""

from __future__ import annotations

from collections.abc import Sequence

from decoding.attention.head_drafts import HeadDrafts
from decoding.attention.prefill import Prefill
from decoding.state.proposal import MODEL_EVIDENCE, Proposal
from decoding.state.row import Row


class TrainedDrafter:
    """Runs the head k times per round, each step a small part of a forward of the target."""

    draws_tokens = True

    def __init__(self, drafts: HeadDrafts) -> None:
        self._drafts = drafts
        self._n_pairs: list[int] = []

    def start(self, slot: int, row: Row, source: int | None) -> Prefill:
        """Read the prompt, once the target has."""
        return self._drafts.start(slot, row.tokens, source)

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Draw up to `lengths[r]` tokens per row; the first step also reads what was committed since it last drew."""
        self._n_pairs = [len(row.tokens) - 1 for row in rows]
        unseen = [row.tokens[n + 1 :] for row, n in zip(rows, self._drafts.cache.lens, strict=True)]
        # A prompt of one token makes no pair, and nothing to draft from.
        lengths = [k if tokens else 0 for tokens, k in zip(unseen, lengths, strict=True)]
        if not any(lengths):
            return Proposal([[] for _ in rows], [MODEL_EVIDENCE] * len(rows))
        # The samples of a row share its draft, which is drawn with the noise of the first.
        return self._drafts.draft(unseen, lengths, [row.seeds[0] for row in rows], [row.sampling for row in rows])

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Forget the draft: accepted tokens are read again, with the target's states."""
        for slot, n_pairs in enumerate(self._n_pairs):
            self._drafts.cache.rewind(slot, n_pairs)

    def fork(self, slot: int, row: Row) -> None:
        """Copy the slot's cache."""
        self._drafts.cache.fork(slot)
        self._n_pairs.append(self._n_pairs[slot])

    def drop(self, slot: int) -> None:
        """Move the last row's cache into the slot."""
        self._drafts.cache.drop(slot)
