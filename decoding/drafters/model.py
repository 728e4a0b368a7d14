"""Drafts from a smaller model with the target's token ids, over a ragged cache of its own."""

from __future__ import annotations

from collections.abc import Sequence

from decoding.attention.draft_runner import DraftRunner
from decoding.attention.prefill import Prefill
from decoding.state.proposal import MODEL_EVIDENCE, Proposal
from decoding.state.row import Row


class ModelDrafter:
    """Runs the draft model k times per round."""

    draws_tokens = True

    def __init__(self, runner: DraftRunner) -> None:
        self._runner = runner
        self._n_confirmed: list[int] = []

    def start(self, row_index: int, row: Row, source: int | None) -> Prefill:
        """Prefill the prompt except its pending last token."""
        state = row.state
        prefix_cache = state.request.prefix_cache
        return self._runner.start(row_index, row.tokens[:-1], state.capacity, source, prefix_cache=prefix_cache)

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Draw up to `lengths[r]` tokens per row, one step of the draft model for each.

        The first step also feeds what the draft model has not seen: the pending token, and after full acceptance its
        own last draft too; after rounds in which others drafted, all of these rounds' tokens.
        """
        self._n_confirmed = [len(row.tokens) for row in rows]
        if not any(lengths):
            return Proposal([[] for _ in rows], [MODEL_EVIDENCE] * len(rows))
        unseen = [row.tokens[length:] for row, length in zip(rows, self._runner.cache.lens, strict=True)]
        # The samples of a row share its draft, which is drawn with the noise of the first.
        return self._runner.draft(unseen, lengths, [row.seeds[0] for row in rows], [row.sampling for row in rows])

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Forget the rejected drafts: the cache keeps only tokens of the row's text."""
        for row_index, (n_confirmed, n) in enumerate(zip(self._n_confirmed, accepted, strict=True)):
            self._runner.cache.rewind(row_index, n_confirmed + n)

    def fork(self, row_index: int, row: Row) -> None:
        """Copy the row's cache."""
        self._runner.cache.fork(row_index)
        self._n_confirmed.append(self._n_confirmed[row_index])

    def drop(self, row_index: int) -> None:
        """Move the last row's cache into its place."""
        self._runner.cache.drop(row_index)

    def set_aside(self, row_index: int) -> None:
        """Set the row's cache aside."""
        self._runner.cache.set_aside(row_index)

    def put_back(self) -> None:
        """Append that row's cache."""
        self._runner.cache.put_back()
