"""One model with its ragged cache: packed tokens in, logits out. Target and draft model alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from transformers import PreTrainedModel

from decoding.attention.backends import backend_of
from decoding.attention.flat_forward import FlatForward
from decoding.attention.prefill import PREFILL_CHUNK, Prefill, Reading
from decoding.attention.ragged import MaskStore
from decoding.attention.taps import TAPS, tapped
from decoding.costs.costs import PromptCost
from decoding.memory.cache import RaggedCache
from decoding.memory.layout import Layout
from decoding.memory.prefix_cache import PrefixCache
from kernels.rows import RaggedRows

ONE_SHELF = "bassline_one_shelf"
"""The attribute of a model that computes with the keys of all rows at once, before its attention."""
TakeLogits = Callable[[torch.Tensor], None]
"""Takes the logits [N, V] of a chunk of a prompt."""


class ModelRunner:
    """Runs a causal LM over a `RaggedCache` that it owns for the length of one batch."""

    def __init__(
        self,
        model: PreTrainedModel,
        vocab_size: int,
        max_rows: int,
        *,
        capacity_step: int = 1,
        keeps_place: bool = False,
        scatters_by_kernel: bool = True,
        cost: PromptCost | None = None,
        prefix_cache: PrefixCache | None = None,
        taps: Sequence[int] = (),
    ) -> None:
        """`keeps_place` and `capacity_step` go to the cache.

        `scatters_by_kernel` lets the kernel of the attention backend write keys and values, if it has one. `cost`
        learns what a token of a prefill costs; by default a new one does. `prefix_cache` serves the prompts that ask
        for it. `taps` are the layers whose inputs the cache records (`taps.py`).
        """
        self.model = model
        self.name = model.config.name_or_path or type(model).__name__
        self.vocab_size = vocab_size
        self.device = model.device
        config = model.config.get_text_config()
        self.backend = backend_of(model)
        self._flat = FlatForward.of(model)
        self.prefill_chunk = PREFILL_CHUNK[self.device.type]
        self.cost = cost or PromptCost()
        self._prefix_cache = prefix_cache
        self.taps = tuple(taps)
        self.cache = RaggedCache(
            config.num_hidden_layers,
            max_rows,
            scatter=self.backend.load_scatter() if scatters_by_kernel else None,
            keeps_place=keeps_place,
            capacity_step=capacity_step,
            one_shelf=getattr(model, ONE_SHELF, False),
        )

    @torch.inference_mode()
    def start(
        self,
        row: int,
        tokens: Sequence[int],
        capacity: int,
        source: int | None = None,
        *,
        prefix_cache: bool = False,
        leave_rest: bool = False,
        score: TakeLogits | None = None,
    ) -> Prefill:
        """Begin a row of up to `capacity` tokens with `tokens`, copied from row `source` if that has them.

        Otherwise the row gets the blocks of the prefix cache at once, if it is to be used, and the result reads the
        rest. `leave_rest` leaves the tokens after the last whole chunk to the row's first round.

        `score` gets the logits of every token, chunk by chunk, so it uses no prefix cache and leaves no rest.
        """
        if source is not None:
            self.cache.start(row, capacity, len(tokens), source=source)
            return Prefill()
        self.cache.start(row, capacity)
        known = self._prefix_cache if prefix_cache and score is None else None
        n_known = known.restore(self.cache, row, tokens) if known is not None else 0
        n = self._whole_chunks(tokens) if leave_rest and score is None else len(tokens)
        return self._prefill(row, tokens[:n], n_known, known, score)

    def chunks(self, tokens: Sequence[int], *, prefix_cache: bool, leave_rest: bool) -> tuple[list[int], int]:
        """Return the sizes of the forwards that `start` would need to prefill `tokens`, and how many it would leave."""
        first = self._prefix_cache.n_known(tokens) if prefix_cache and self._prefix_cache is not None else 0
        n = self._whole_chunks(tokens) if leave_rest else len(tokens)
        return [min(self.prefill_chunk, n - at) for at in range(first, n, self.prefill_chunk)], len(tokens) - n

    def _whole_chunks(self, tokens: Sequence[int]) -> int:
        return len(tokens) // self.prefill_chunk * self.prefill_chunk

    def _prefill(
        self, row: int, tokens: Sequence[int], first: int, known: PrefixCache | None, score: TakeLogits | None
    ) -> Prefill:
        timer = self.cost.token if score is None else self.cost.scored_token

        def read(start: int, end: int) -> None:
            logits = self.forward([tokens[start:end]], n_last=[1] if score is None else None, first_slot=row)
            self.cache.commit([end - start], first_slot=row)
            if score is not None:
                score(logits)
            if known is not None:
                known.store(self.cache, row, tokens[:end])

        return Prefill(Reading(read, first, len(tokens), self.prefill_chunk, timer, self.device))

    @torch.inference_mode()
    def forward(
        self, tokens: Sequence[Sequence[int]], *, n_last: Sequence[int] | None = None, first_slot: int = 0
    ) -> torch.Tensor:
        """Return logits [N, V] of `tokens[r]` appended to each row, or [sum(n_last), V] of the last `n_last[r]` of it.

        `tokens` belong to the rows from slot `first_slot` on; the other rows are left out. The logits of a row
        without tokens mean nothing. Nothing is committed: the caller commits the tokens that stay. Raises RuntimeError
        when a row would outgrow the cache.
        """
        counts = [len(row) for row in tokens]
        layout = self.cache.begin(counts, self.device, first_slot)
        packed = torch.tensor([[t for row in tokens for t in row]], device=self.device)
        keep = None
        if n_last is not None:
            ends = zip(accumulate(counts), n_last, strict=True)
            keep = torch.tensor([at for end, n in ends for at in range(end - n, end)], device=self.device)
        if self._flat is not None:
            return self._flat(packed, layout, self.cache, keep, self.taps)[:, : self.vocab_size]
        return self.forward_packed(packed, layout, keep, layout.rows if self.backend.function else None)

    @property
    def reads_in_rounds(self) -> bool:
        """Whether the rest of a prompt may be read in a round: not by a model that runs row by row.

        On a GPU a round is too short, and a chunk of a prompt too long for it.
        """
        return self._flat is not None

    def forward_packed(
        self, packed: torch.Tensor, layout: Layout, keep: torch.Tensor | None, rows: RaggedRows | None
    ) -> torch.Tensor:
        """Return the logits that transformers computes of packed tokens [1, N], at `keep` only if given."""
        with tapped(self.model, self.taps) as inputs:
            logits: torch.Tensor = self.model(
                input_ids=packed,
                position_ids=layout.position[None],
                past_key_values=self.cache,
                use_cache=True,
                logits_to_keep=0 if keep is None else keep,
                layout=layout,
                masks=MaskStore(),
                rows=rows,
            ).logits[0]
        if self.taps:
            self.cache.record(TAPS, torch.cat([inputs[tap][0] for tap in self.taps], dim=1))
        # Ids past the tokenizer's are padding of the embedding matrix and never to be sampled.
        return logits[:, : self.vocab_size]
