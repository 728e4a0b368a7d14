"""How fast one arm decoded one prompt."""

from __future__ import annotations

from dataclasses import dataclass

from decoding.request import Completion

TOP_P = 0.95
"""Of every arm."""


@dataclass(frozen=True)
class Speed:
    """One prompt decoded by one arm: `tokens` over all samples in `seconds`, prefill included.

    The first sample had finished after `first_s` seconds, if that is known. `completion` is there for arms of ours.
    """

    tokens: int
    seconds: float
    completion: Completion | None = None
    first_s: float | None = None

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds
