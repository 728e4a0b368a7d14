"""The interface of a drafter."""

from __future__ import annotations

from collections.abc import Sequence

from decoding.attention.prefill import Prefill
from decoding.state.proposal import MODEL_EVIDENCE, Proposal
from decoding.state.row import Row


class Drafter:
    """Proposes up to k tokens per row; keeps its state in step with the rows of the batch.

    This one proposes nothing and is stateless: plain decoding, through the same loop. `draws_tokens` says whether a
    drafter draws its tokens at random (a model) or is certain of them (a lookup).
    """

    draws_tokens = False

    def start(self, row_index: int, row: Row, source: int | None) -> Prefill:
        """Begin a row that holds only its prompt; `source` is a row of the same request, if there is one.

        Long work is left to the result.
        """
        return Prefill()

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Return at most `lengths[r]` draft tokens for each row."""
        return Proposal([[] for _ in rows], [MODEL_EVIDENCE] * len(rows))

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Learn how many draft tokens were accepted; the rows' tokens are already extended."""

    def fork(self, row_index: int, row: Row) -> None:
        """Copy the row's state to a new last row: `row` continues there with some of the samples and the same
        text."""

    def drop(self, row_index: int) -> None:
        """Forget the row; the last row takes its place."""

    def set_aside(self, row_index: int) -> None:
        """Take the row out of the batch until `put_back`; the last row takes its place."""

    def put_back(self) -> None:
        """Append the row that was set aside."""
