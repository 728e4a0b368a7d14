"""One model with its ragged cache: packed tokens in, logits out. Target and draft model alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from transformers import PreTrainedModel

from decoding.attention import MaskStore
from decoding.attention_variants import chosen, rows_of
from decoding.cache import RaggedCache

# A prompt is prefilled in pieces of this many tokens, to bound the mask (piece x length) and the logits.
PREFILL_PIECE = 512


class ModelRunner:
    """Runs a causal LM over a `RaggedCache` that it owns for the length of one batch."""

    def __init__(self, model: PreTrainedModel, vocab_size: int, max_rows: int, *, capacity_step: int = 1) -> None:
        """`capacity_step` rounds the cache's capacity up, so that a cache that stays in use seldom has to move."""
        self.model = model
        self.name = model.config.name_or_path or type(model).__name__
        self._capacity_step = capacity_step
        self.vocab_size = vocab_size
        self.device = model.device
        config = model.config.get_text_config()
        self.attention = chosen(model)
        self.cache = RaggedCache(
            config.num_hidden_layers, max_rows, uses_kernel=self.attention in ("ragged", "pad", "split")
        )

    @torch.inference_mode()
    def start(self, row: int, tokens: Sequence[int], capacity: int, source: int | None = None) -> None:
        """Begin a row of up to `capacity` tokens with `tokens`, copied from row `source` if that has them."""
        self.cache.reserve(-(-capacity // self._capacity_step) * self._capacity_step)
        if source is not None:
            self.cache.start(row, len(tokens), source)
            return
        self.cache.start(row)
        for at in range(0, len(tokens), PREFILL_PIECE):
            piece = tokens[at : at + PREFILL_PIECE]
            self.forward([piece], last_only=True, first=row)
            self.cache.commit([len(piece)], first=row)

    @torch.inference_mode()
    def forward(self, tokens: Sequence[Sequence[int]], *, last_only: bool = False, first: int = 0) -> torch.Tensor:
        """Return logits [N, V] of `tokens[r]` appended to each row, [R, V] of each row's last with `last_only`.

        `tokens` are those of the rows from `first` on; rows behind them sit out.

        Nothing is committed: the caller says afterwards how many of the tokens stay.
        """
        counts = [len(row) for row in tokens]
        layout = self.cache.begin(counts, self.device, first)
        packed = torch.tensor([[t for row in tokens for t in row]], device=self.device)
        keep: int | torch.Tensor = 0
        if last_only:
            keep = torch.tensor([end - 1 for end in accumulate(counts)], device=self.device)
        logits: torch.Tensor = self.model(
            input_ids=packed,
            position_ids=layout.position[None],
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=keep,
            layout=layout,
            masks=MaskStore(),
            rows=None if self.attention == "sdpa" else rows_of(layout),
        ).logits[0]
        # Ids past the tokenizer's are padding of the embedding matrix and never to be sampled.
        return logits[:, : self.vocab_size]
