"""Records hidden states while the engine generates: a drafter that proposes nothing and watches every row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from decoding.attention.taps import OUTPUT, TAPS
from decoding.drafters.base import NoDrafter
from decoding.memory.cache import RaggedCache
from decoding.state.row import Row


@dataclass(frozen=True, slots=True)
class RecordedText:
    """One text with its states."""

    tokens: torch.Tensor  # [T]
    taps: torch.Tensor  # [T - 1, taps * H] of all tokens but the last, which no forward has read
    # [G, H]: what the output layer read at the G positions from the prompt's last token on; with the output layer's
    # weights they are the target's distributions of the G generated tokens
    outputs: torch.Tensor


class Recorder(NoDrafter):
    """Hands each row's recording to `keep` when the row ends; every row carries one sample."""

    def __init__(self, cache: RaggedCache, keep: Callable[[int, RecordedText], None]) -> None:
        """`cache` is the target's; `keep` gets the position of the request and the recording."""
        self._cache = cache
        self._keep = keep

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Keep the recordings of the rows that have just ended."""
        for row_index, row in enumerate(rows):
            first, n = len(row.state.prompt) - 1, len(row.tokens)
            if row.is_finished and n > first + 2:
                recording = RecordedText(
                    torch.tensor(row.tokens, dtype=torch.int32),
                    self._cache.read_recorded(TAPS, [(row_index, 0, n - 1)]).to("cpu", torch.bfloat16, copy=True),
                    self._cache.read_recorded(OUTPUT, [(row_index, first, n - 1)]).to("cpu", torch.bfloat16, copy=True),
                )
                self._keep(row.state.position, recording)
