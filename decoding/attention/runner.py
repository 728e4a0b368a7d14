"""One model with its ragged cache: packed tokens in, logits out. Target and draft model alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate

import torch
from transformers import PreTrainedModel

from decoding.attention.backends import get_backend
from decoding.attention.flat_forward import FlatForward
from decoding.attention.prefill import PREFILL_CHUNK, Prefill, PrefillPart, split_span
from decoding.attention.ragged import MaskStore
from decoding.attention.recurrence import get_recurrence, is_recurrent
from decoding.attention.taps import TAPS, record_taps
from decoding.costs import PromptCost
from decoding.memory.cache import RaggedCache
from decoding.memory.layout import Layout
from decoding.memory.pages import PAGE_SIZE, PagePool, count_pages
from decoding.memory.recurrent import RecurrentCache
from decoding.models.fp8 import read_prompt
from kernels.upload import upload

GATHERS = "bassline_gathers"
"""The attribute of a model that computes with the keys that a layer of the cache returns, before its attention."""
_MAX_TOKENS = 4096
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
        pool: PagePool | None = None,
        max_tokens: int = _MAX_TOKENS,
        scatters_by_kernel: bool = True,
        cost: PromptCost | None = None,
        taps: Sequence[int] = (),
    ) -> None:
        """`pool` has the pages of the rows, each of up to `max_tokens` tokens; by default a new one does.

        `scatters_by_kernel` lets the kernel of the attention backend write keys and values, if it has one. `cost`
        learns what a token of a prefill costs; by default a new one does. `taps` are the layers whose inputs the cache
        records (`taps.py`).
        """
        self.model = model
        self.name = model.config.name_or_path or type(model).__name__
        self.vocab_size = vocab_size
        self.device = model.device
        config = model.config.get_text_config()
        self.backend = get_backend(model)
        gathers = getattr(model, GATHERS, False)
        self._flat = None if gathers else FlatForward.find_for(model)
        self.prefill_chunk = PREFILL_CHUNK[self.device.type]
        self.cost = cost or PromptCost()
        self.taps = tuple(taps)
        self.max_tokens = max_tokens
        if pool is None:
            size = PAGE_SIZE[self.device.type]
            pool = PagePool(max_rows * count_pages(max_tokens, size), size)
        self.is_recurrent = is_recurrent(model)
        kind: Callable[..., RaggedCache] = RaggedCache
        if self.is_recurrent:
            kind = partial(RecurrentCache, kernel=get_recurrence(model), chunk=self.prefill_chunk)
        self.cache = kind(
            config.num_hidden_layers,
            max_rows,
            pool,
            self.device,
            max_tokens=max_tokens,
            scatter=self.backend.load_scatter() if scatters_by_kernel else None,
            gathers=gathers,
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
        keeps_prompt: bool = False,
        score: TakeLogits | None = None,
    ) -> Prefill:
        """Begin a row of up to `capacity` tokens with `tokens`, shared with row `source` if that has them.

        Otherwise the row gets what is known of earlier prompts at once, if `prefix_cache`, and the result reads the
        rest. `leave_rest` leaves the tokens after the last whole chunk to the row's first round.

        `keeps_prompt` lets other rows be started from this one as `source` when it has more than `tokens`.

        `score` gets the logits of every token, chunk by chunk, so it uses no prefix cache and leaves no rest.
        """
        if source is not None:
            self.cache.start(row, capacity, len(tokens), source=source)
            return Prefill()
        self.cache.start(row, capacity)
        keeps = prefix_cache and score is None
        n_known = self.cache.restore(row, tokens) if keeps else 0
        n = self._split_whole(tokens) if leave_rest and score is None else len(tokens)
        if keeps_prompt and n_known >= n:
            self.cache.keep_prompt(row)
        timer = self.cost.token if score is None else self.cost.scored_token

        def read(row: int, start: int, end: int) -> None:
            n_last = [1] if score is None else None
            with read_prompt():
                logits = self.forward([tokens[start:end]], n_last=n_last, first_row=row, whole=True)
            self.cache.commit([end - start], first_row=row)
            if score is not None:
                score(logits)
            if keeps:
                self.cache.keep(row, tokens[:end])
            if keeps_prompt and end == n:
                self.cache.keep_prompt(row)

        return Prefill(PrefillPart(read, n_known, n, self.prefill_chunk, timer, self.device))

    def plan_chunks(self, tokens: Sequence[int], *, prefix_cache: bool, leave_rest: bool) -> tuple[list[int], int]:
        """Return the sizes of the forwards that `start` would need to prefill `tokens`, and how many it would leave."""
        first = self.cache.n_known(tokens) if prefix_cache else 0
        n = self._split_whole(tokens) if leave_rest else len(tokens)
        return [end - start for start, end in split_span(first, n, self.prefill_chunk)], len(tokens) - max(n, first)

    def _split_whole(self, tokens: Sequence[int]) -> int:
        return len(tokens) // self.prefill_chunk * self.prefill_chunk

    @torch.inference_mode()
    def forward(
        self,
        tokens: Sequence[Sequence[int]],
        *,
        n_last: Sequence[int] | None = None,
        first_row: int = 0,
        whole: bool = False,
    ) -> torch.Tensor:
        """Return logits [N, V] of `tokens[r]` appended to each row, or [sum(n_last), V] of the last `n_last[r]` of it.

        `tokens` belong to the rows from `first_row` on; the other rows are left out. The logits of a row
        without tokens mean nothing. Nothing is committed: the caller commits the tokens that stay, which are all of
        one row if it says `whole`. Raises RuntimeError when a row would outgrow the cache.
        """
        counts = [len(row) for row in tokens]
        layout = self.cache.begin(counts, first_row, whole=whole)
        packed = upload([[t for row in tokens for t in row]], self.device)
        keep = None
        if n_last is not None:
            ends = zip(accumulate(counts), n_last, strict=True)
            keep = upload([at for end, n in ends for at in range(end - n, end)], self.device)
        return self.forward_packed(packed, layout, keep)

    @property
    def reads_in_rounds(self) -> bool:
        """Whether the rest of a prompt may be read in a round: only by the flat forward, on a CPU.

        Recurrent layers would read it in another form there, and a chunk of 512 tokens would dominate a round on a GPU.
        """
        return self._flat is not None and self.device.type == "cpu"

    def forward_packed(self, packed: torch.Tensor, layout: Layout, keep: torch.Tensor | None) -> torch.Tensor:
        """Return the logits [N, V] of packed tokens [1, N], of those at positions `keep` only if it is given."""
        if self._flat is not None:
            return self._flat(packed, layout, self.cache, keep, self.taps)[:, : self.vocab_size]
        with record_taps(self.model, self.taps) as inputs:
            logits: torch.Tensor = self.model(
                input_ids=packed,
                position_ids=layout.position[None],
                past_key_values=self.cache,
                use_cache=True,
                logits_to_keep=0 if keep is None else keep,
                layout=layout.dense if self.cache.gathers else layout,
                masks=MaskStore(),
            ).logits[0]
        if self.taps:
            self.cache.record(TAPS, torch.cat([inputs[tap][0] for tap in self.taps], dim=1))
        # Ids past the tokenizer's are padding of the embedding matrix and never to be sampled.
        return logits[:, : self.vocab_size]
