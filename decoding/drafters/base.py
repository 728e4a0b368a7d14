"""What a drafter is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from decoding.row import Row
from decoding.sampling import Distribution


@dataclass(frozen=True, slots=True)
class Proposal:
    """Draft tokens per row (rows may differ in length) and the distributions they were drawn from.

    `q` holds one distribution per row and step, [R * k, C] in row order with k the longest draft; None says that every
    draft is a certainty of its drafter (one-hot), as a lookup's are.
    """

    tokens: list[list[int]]
    q: Distribution | None = None


class Drafter(Protocol):
    """Proposes up to k tokens per row; keeps whatever state it needs in step with the batch's slots."""

    def begin(self, rows: Sequence[Row], capacity: int) -> None:
        """Start on a batch whose rows hold the prompt only; no row will pass `capacity` tokens."""

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Return at most `lengths[r]` draft tokens for each row."""

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Learn how many draft tokens stood; the rows' tokens are already extended."""

    def drop(self, slot: int) -> None:
        """A row left the batch and the last one took its slot."""

    def restart(self, slot: int, row: Row) -> None:
        """A waiting sample took over the slot, starting from the same prompt."""


class NoDrafter:
    """Proposes nothing: plain decoding, through the same loop."""

    def begin(self, rows: Sequence[Row], capacity: int) -> None:
        """Nothing to prepare."""

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Return no tokens."""
        return Proposal([[] for _ in rows])

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Nothing to learn."""

    def drop(self, slot: int) -> None:
        """Nothing to move."""

    def restart(self, slot: int, row: Row) -> None:
        """Nothing to move."""
