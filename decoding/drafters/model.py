"""Drafts from a smaller model with the target's token ids, or from a head that was trained for the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from decoding.attention.drafting import BlockSampler, DraftRunner, DraftSampler
from decoding.attention.prefill import Prefill
from decoding.drafters.base import Drafter
from decoding.state.proposal import Proposal
from decoding.state.row import DraftRequest, Row

Sampler = TypeVar("Sampler", bound=DraftSampler[Any, Any])


class CachedDrafter(Drafter, Generic[Sampler]):
    """Draws tokens by a sampler whose cache has a row for each row of the batch."""

    draws_tokens = True

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def fork(self, row_index: int, row: Row) -> None:
        """Copy the row's cache."""
        self._sampler.cache.fork(row_index)

    def drop(self, row_index: int) -> None:
        """Move the last row's cache into its place."""
        self._sampler.cache.drop(row_index)

    def set_aside(self, row_index: int) -> None:
        """Set the row's cache aside."""
        self._sampler.cache.set_aside(row_index)

    def put_back(self) -> None:
        """Append that row's cache."""
        self._sampler.cache.put_back()


class ModelDrafter(CachedDrafter[DraftRunner]):
    """Runs the draft model k times per round."""

    def __init__(self, sampler: DraftRunner) -> None:
        super().__init__(sampler)
        self._n_confirmed: list[int] = []

    def start(self, row_index: int, row: Row, source: int | None) -> Prefill:
        """Prefill the prompt except its pending last token."""
        state = row.state
        prefix_cache = state.request.prefix_cache
        return self._sampler.runner.start(row_index, row.tokens[:-1], state.capacity, source, prefix_cache=prefix_cache)

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Draw up to `lengths[r]` tokens per row, one step of the draft model for each.

        The first step also feeds what the draft model has not seen: the pending token, and after full acceptance its
        own last draft too; after rounds in which others drafted, all of these rounds' tokens.
        """
        self._n_confirmed = [len(row.tokens) for row in rows]
        if not any(lengths):
            return super().propose(rows, lengths)
        unseen = [row.tokens[length:] for row, length in zip(rows, self._sampler.cache.lens, strict=True)]
        return self._sampler.draft(unseen, DraftRequest.from_rows(rows, lengths))

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Forget the rejected drafts: the cache keeps only tokens of the row's text."""
        for row_index, (n_confirmed, n) in enumerate(zip(self._n_confirmed, accepted, strict=True)):
            self._sampler.cache.rewind(row_index, n_confirmed + n)

    def fork(self, row_index: int, row: Row) -> None:
        """Copy the row's cache."""
        super().fork(row_index, row)
        self._n_confirmed.append(self._n_confirmed[row_index])


class TrainedDrafter(CachedDrafter[BlockSampler]):
    """Runs the head once a round, a small part of a forward of the target.

    What was accepted is read in the next round, with the target's states.
    """

    def start(self, row_index: int, row: Row, source: int | None) -> Prefill:
        """Read the prompt, once the target has."""
        return self._sampler.runner.start(row_index, row.tokens, source)

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Draw up to `lengths[r]` tokens per row, and no more than a block has."""
        longest = self._sampler.runner.head.n_proposed
        # Of a prompt of one token the target has read none, so there are no states.
        lengths = [
            min(k, longest) if n_read else 0
            for n_read, k in zip(self._sampler.runner.read_by_target, lengths, strict=True)
        ]
        if not any(lengths):
            return super().propose(rows, lengths)
        return self._sampler.draft([row.tokens[-1] for row in rows], DraftRequest.from_rows(rows, lengths))
