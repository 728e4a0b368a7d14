"""One model with its ragged cache: packed tokens in, logits out. Target and draft model alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from transformers import PreTrainedModel

from decoding.attention import MaskStore
from decoding.cache import RaggedCache

# A prompt is prefilled in pieces of this many tokens, to bound the mask (piece x length) and the logits.
PREFILL_PIECE = 512


class ModelRunner:
    """Runs a causal LM over a `RaggedCache` that it owns for the length of one batch."""

    def __init__(self, model: PreTrainedModel, vocab_size: int, max_rows: int, capacity: int) -> None:
        self.model = model
        self.vocab_size = vocab_size
        self.device = model.device
        config = model.config.get_text_config()
        self.cache = RaggedCache(config.num_hidden_layers, max_rows, capacity)

    @torch.inference_mode()
    def prefill(self, tokens: Sequence[int], n_rows: int) -> None:
        """Commit `tokens` to row 0 and share them with `n_rows` rows; no logits are wanted yet."""
        self.cache.lens = [0]
        for start in range(0, len(tokens), PREFILL_PIECE):
            piece = tokens[start : start + PREFILL_PIECE]
            self.forward([piece], last_only=True)
            self.cache.commit([len(piece)])
        self.cache.expand(n_rows)

    @torch.inference_mode()
    def forward(self, tokens: Sequence[Sequence[int]], *, last_only: bool = False) -> torch.Tensor:
        """Return logits [N, V] of `tokens[r]` appended to each row, [R, V] of each row's last with `last_only`.

        Nothing is committed: the caller says afterwards how many of the tokens stay.
        """
        counts = [len(row) for row in tokens]
        layout = self.cache.begin(counts, self.device)
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
        ).logits[0]
        # Ids past the tokenizer's are padding of the embedding matrix and never to be sampled.
        return logits[:, : self.vocab_size]
