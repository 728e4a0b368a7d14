"""The runners of an engine's models: new ones for each batch, or a pair that keeps its caches and CUDA graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from decoding.acceptance.rule import AcceptanceRule
from decoding.attention.block_drafts import BlockDrafts
from decoding.attention.block_graphs import BlockGraphs
from decoding.attention.block_runner import BlockRunner
from decoding.attention.cache import RaggedCache
from decoding.attention.draft_graphs import DraftGraphs
from decoding.attention.draft_runner import DraftRunner
from decoding.attention.graphs import Graphs, bucket_rows
from decoding.attention.layout import padded_slots
from decoding.attention.prefill import PREFILL_CHUNK
from decoding.attention.prefix_cache import PrefixCache
from decoding.attention.row_by_row import runner_of
from decoding.attention.runner import ModelRunner
from decoding.attention.target_runner import TargetRunner
from decoding.attention.verify_graphs import VerifyGraphs
from decoding.costs.costs import Costs
from decoding.models.device_memory import free_bytes
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead

# Slots by which a cache grows. When it moves, its graphs have to be recaptured.
_CAPACITY_STEP = 2048
# The same without graphs: growing copies the cache, which must not happen for every prompt that is a little longer.
_BATCH_STEP = 256
# The share of free memory that caches may take: a forward needs some as well.
_USABLE = 0.9
# What the prefix cache of a model may hold: about 20,000 tokens of qwen2.5-coder-0.5b in bf16, 9,000 of the 1.5b.
_PREFIX_CACHE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Runners:
    """The target, and the draft model or trained head if there is one, with empty caches, for one batch.

    `shares_rows` says whether samples that agree may share a row: in a graph each has its own, because a GPU verifies
    many rows as fast as one and shapes stay the same. `slot_bytes` are the bytes that a token of a row takes in all
    caches, 0 if that is not known yet.
    """

    target: TargetRunner
    draft: DraftRunner | BlockDrafts | None
    graphs: tuple[Graphs[Any], ...] = ()
    slot_bytes: int = 0

    @property
    def _caches(self) -> list[RaggedCache]:
        return [runner.cache for runner in (self.target, self.draft) if runner is not None]

    def reserve(self, n_rows: int, capacity: int) -> None:
        """Make room for `n_rows` rows of `capacity` tokens before any of them changes."""
        self.target.reserve(capacity)
        if self.draft is not None:
            self.draft.reserve(capacity)
        for cache in self._caches:
            cache.reserve_rows(n_rows)

    def release(self) -> None:
        """Give the memory of the caches back."""
        for cache in self._caches:
            cache.release()

    @property
    def seen_slot_bytes(self) -> int:
        """The bytes that a token of a row takes in all caches, as far as they were written in this batch."""
        return sum(cache.slot_bytes for cache in self._caches)

    def lacks_bytes(self, n_rows: int, capacity: int) -> int:
        """Return the bytes that caches of `n_rows` rows of `capacity` tokens need beyond the free memory; 0 if they
        fit."""
        target = self.target.cache
        if target.lens or target.keeps_place:  # an empty cache is made as large as is needed
            capacity = max(capacity, target.capacity)
        needed = target.rows_for(n_rows) * padded_slots(capacity) * self.slot_bytes
        more = needed - sum(cache.n_bytes for cache in self._caches)
        free = int(_USABLE * free_bytes(self.target.device)) if more > 0 else 0
        return max(more - free, 0)

    @property
    def shares_rows(self) -> bool:
        """Whether a row may carry several samples."""
        return not self.graphs

    @property
    def captured_s(self) -> float:
        """Seconds that captures have taken so far."""
        return sum(graphs.captured_s for graphs in self.graphs)

    @property
    def capture_ahead_s(self) -> float:
        """Seconds that captures will take in the next round, because a long prompt has made a cache move."""
        return sum(graphs.capture_ahead_s for graphs in self.graphs)


class RunnerPool:
    """Makes the runners of each batch; with `graphs`, one pair is kept whose rounds run as CUDA graphs."""

    def __init__(
        self,
        target: LoadedModel,
        draft: LoadedModel | None,
        rule: AcceptanceRule,
        max_batch: int,
        *,
        graphs: bool,
        disabled: Collection[str],
        costs: Costs,
        head: LoadedHead | None = None,
    ) -> None:
        """`disabled` names kernels that do not work here (`checks/self_check.py`); `head` drafts for the target.

        Prefills report to `costs`.
        """
        self._models = [model for model in (target, draft) if model is not None]
        self._rule = rule
        self._head = head
        self._taps = head.head.shape.taps if head is not None else ()
        self._max_batch = max_batch
        self._scatters_by_kernel = "kv_scatter" not in disabled
        self._costs = costs
        self._prefix_caches = [PrefixCache(_PREFIX_CACHE_BYTES, PREFILL_CHUNK[m.device.type]) for m in self._models]
        self._verify: VerifyGraphs | None = None
        self._draft: DraftGraphs | BlockGraphs | None = None
        self._kept: list[ModelRunner] = []
        self._kept_head: BlockRunner | None = None
        self._is_in_use = False
        self._slot_bytes = 0
        # A capture failed, and its graphs were dropped.
        self._has_dropped = False
        if graphs:
            rows, uses_kernel = bucket_rows(max_batch), "accept" not in disabled
            self._kept = [
                self.new_runner(model, rows, capacity_step=_CAPACITY_STEP, keeps_place=True) for model in self._models
            ]
            self._verify = VerifyGraphs(self._kept[0], rule, uses_kernel=uses_kernel)
            if draft is not None:
                self._draft = DraftGraphs(self._kept[1], rule, uses_kernel=uses_kernel)
            elif head is not None:
                self._kept_head = self._new_head_runner(head, self._kept[0])
                self._draft = BlockGraphs(self._kept_head, rule, uses_kernel=uses_kernel)

    def new_runner(
        self, model: LoadedModel, max_rows: int, *, capacity_step: int = 1, keeps_place: bool = False
    ) -> ModelRunner:
        """Return a runner of one of the models with an empty cache of its own."""
        which = next(i for i, known in enumerate(self._models) if known is model)
        return runner_of(
            model.model,
            min(each.vocab_size for each in (self._models[0], model)),
            max_rows,
            capacity_step=capacity_step,
            keeps_place=keeps_place,
            scatters_by_kernel=self._scatters_by_kernel,
            cost=self._costs.prompts[which],
            prefix_cache=self._prefix_caches[which],
            taps=() if which else self._taps,
        )

    def _new_head_runner(self, head: LoadedHead, target: ModelRunner) -> BlockRunner:
        return BlockRunner(head, target, self._costs.prompts[-1])

    @contextmanager
    def acquire(self, max_rows: int) -> Iterator[Runners]:
        """Give runners to one batch of up to `max_rows` rows.

        The kept pair serves one batch at a time; a batch that starts while another one waits for its caller gets new
        runners, without graphs.
        """
        if not self._is_in_use:
            self._drop_failed()
        if self._verify is None or self._is_in_use:
            runners = [self.new_runner(model, max_rows, capacity_step=_BATCH_STEP) for model in self._models]
            made = self._runners(runners, None, None)
            try:
                yield made
            finally:
                self._slot_bytes = max(self._slot_bytes, made.seen_slot_bytes)
                made.release()
            return
        self._is_in_use = True
        self._empty_kept()
        try:
            yield self._runners(self._kept, self._verify, self._draft)
        finally:
            self._is_in_use = False

    def _empty_kept(self) -> None:
        for cache in self._kept_caches():
            cache.lens.clear()

    def _kept_caches(self) -> list[RaggedCache]:
        caches = [runner.cache for runner in self._kept]
        return caches if self._kept_head is None else [*caches, self._kept_head.cache]

    def _runners(
        self, each: list[ModelRunner], verify: VerifyGraphs | None, draft: DraftGraphs | BlockGraphs | None
    ) -> Runners:
        drafting: DraftRunner | BlockDrafts | None = None
        if self._head is not None:
            assert not isinstance(draft, DraftGraphs)
            runner = draft.runner if draft is not None else self._new_head_runner(self._head, each[0])
            drafting = BlockDrafts(runner, self._rule, draft)
        elif len(each) > 1:
            assert not isinstance(draft, BlockGraphs)
            drafting = DraftRunner(each[1], self._rule, draft)
        return Runners(
            TargetRunner(each[0], self._rule, verify),
            drafting,
            tuple(graphs for graphs in (verify, draft) if graphs is not None),
            self._slot_bytes,
        )

    @property
    def has_graphs(self) -> bool:
        """Whether rounds run as graphs, as far as is known."""
        return self._verify is not None and self._verify.ready

    @property
    def has_failed(self) -> bool:
        """Whether a capture has failed."""
        return self._has_dropped or any(each is not None and not each.ready for each in (self._verify, self._draft))

    @property
    def draft_graphs(self) -> DraftGraphs | None:
        """The graphs of the draft model, if there are any."""
        return self._draft if isinstance(self._draft, DraftGraphs) else None

    @property
    def n_bytes(self) -> int:
        """The bytes of the caches and graphs that stay between batches."""
        graphs = [each for each in (self._verify, self._draft) if each is not None]
        kept = sum(cache.n_bytes for cache in self._kept_caches()) + sum(each.n_bytes for each in graphs)
        return kept + sum(cache.n_bytes for cache in self._prefix_caches)

    @torch.inference_mode()
    def capture(self, longest_draft: int) -> None:
        """Capture all graphs, if there are any, so that no request's clock pays for it."""
        if self._verify is None:
            return
        self._empty_kept()
        for runner in self._kept:
            runner.reserve(1)
        if self._kept_head is not None:
            self._kept_head.prepare()
        self._verify.prepare(self._max_batch, longest_draft)
        if self._draft is not None:
            self._draft.prepare(self._max_batch)

    def _drop_failed(self) -> None:
        """Drop graphs whose capture has failed, with the caches that were kept for them."""
        self._has_dropped = self.has_failed
        if self._verify is not None and not self._verify.ready:
            self.drop_graphs()
        if self._draft is not None and not self._draft.ready:
            self.drop_draft_graphs()

    def drop_graphs(self) -> None:
        """Run all rounds without graphs from now on."""
        self._verify = self._draft = self._kept_head = None
        self._kept = []

    def drop_draft_graphs(self) -> None:
        """Run the draft model or head without graphs from now on."""
        self._draft = self._kept_head = None
