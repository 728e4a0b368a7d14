"""How fast one arm decoded one prompt."""

from __future__ import annotations

from dataclasses import dataclass

from decoding.request import Completion

TOP_P = 0.95
"""Of every arm."""


@dataclass(frozen=True)
class Speed:
    """One prompt decoded by one arm."""

    tokens: int  # over all samples
    seconds: float  # prefill included
    completion: Completion | None = None  # for arms of our engine
    first_s: float | None = None  # when the first sample had finished, if known

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds
