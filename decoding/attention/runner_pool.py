"""The runners of an engine's models: new ones for each batch, or a pair that keeps its caches and CUDA graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from decoding.acceptance.rule import AcceptanceRule
from decoding.attention.backends import OWN, backend_of
from decoding.attention.block_drafts import BlockDrafts
from decoding.attention.block_graphs import BlockGraphs
from decoding.attention.block_runner import BlockRunner
from decoding.attention.draft_graphs import DraftGraphs
from decoding.attention.draft_runner import DraftRunner
from decoding.attention.graphs import Graphs, bucket_rows
from decoding.attention.row_by_row import kinds_of, runner_of
from decoding.attention.runner import ModelRunner
from decoding.attention.target_runner import TargetRunner
from decoding.attention.verify_graphs import VerifyGraphs
from decoding.costs.costs import Costs
from decoding.limits import MAX_DRAFT_LENGTH, MAX_SERVED
from decoding.memory.cache import RaggedCache
from decoding.memory.pages import Kinds, PagePool
from decoding.memory.store import Account, KVStore
from decoding.models.loaded import LoadedModel
from decoding.models.threads import all_threads, one_thread
from decoding.models.trained_heads import LoadedHead

# What each model keeps of earlier prompts: about 20,000 tokens of qwen2.5-coder-0.5b in bf16, 9,000 of the 1.5b.
_IDLE_BYTES = 256 * 2**20
# What a row may have behind its text: a rejected draft, and one token more.
_BEHIND = MAX_DRAFT_LENGTH + 1


@dataclass(frozen=True, slots=True)
class Runners:
    """The target, and the draft model or trained head if there is one, with empty caches, for one batch.

    `memory` is what its requests take for their rows. `shares_rows` says whether samples that agree may share a row: in
    a graph each has its own, because a GPU verifies many rows as fast as one and shapes stay the same.
    """

    target: TargetRunner
    draft: DraftRunner | BlockDrafts | None
    memory: Account
    graphs: tuple[Graphs[Any], ...] = ()

    @property
    def shares_rows(self) -> bool:
        """Whether a row may carry several samples."""
        return not self.graphs

    @property
    def captured_s(self) -> float:
        """Seconds that captures have taken so far."""
        return sum(graphs.captured_s for graphs in self.graphs)


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
        store: KVStore,
        head: LoadedHead | None = None,
    ) -> None:
        """`disabled` names kernels that do not work here (`checks/self_check.py`); `head` drafts for the target.

        Prefills report to `costs`; all caches take their memory from `store`.
        """
        self._models = [model for model in (target, draft) if model is not None]
        self._rule = rule
        self._head = head
        self._taps = head.head.shape.taps if head is not None else ()
        self._max_batch = max_batch
        self._scatters_by_kernel = "kv_scatter" not in disabled
        self._costs = costs
        self._store = store
        self._pools = self._make_pools()
        self._verify: VerifyGraphs | None = None
        self._draft: DraftGraphs | BlockGraphs | None = None
        self._kept: list[ModelRunner] = []
        self._kept_head: BlockRunner | None = None
        self._kept_memory: Account | None = None
        self._is_in_use = False
        # A capture failed, and its graphs were dropped.
        self._has_dropped = False
        if graphs:
            rows, uses_kernel = bucket_rows(max_batch), "accept" not in disabled
            self._kept = [self.new_runner(model, rows) for model in self._models]
            self._verify = VerifyGraphs(self._kept[0], rule, uses_kernel=uses_kernel)
            if draft is not None:
                self._draft = DraftGraphs(self._kept[1], rule, uses_kernel=uses_kernel)
            elif head is not None:
                self._kept_head = self._new_head_runner(head, self._kept[0])
                self._draft = BlockGraphs(self._kept_head, rule, uses_kernel=uses_kernel)
            self._kept_memory = store.open(_caches(self._kept, self._kept_head))

    def _make_pools(self) -> list[PagePool]:
        """Return the pages of each model and of the head; a row-by-row model has nothing in its pages."""
        kinds = [
            model.measured_once(f"kinds of a token, taps {taps}", partial(_kinds, model, taps))
            for model, taps in zip(self._models, (self._taps, ()), strict=False)
        ]
        if self._head is not None:
            kinds.append(self._head.head.kinds)
        rows = max(bucket_rows(self._max_batch), MAX_SERVED)
        pools = self._store.divide(kinds, rows * (self._most + self._store.page_size), _IDLE_BYTES)
        packed = [backend_of(model.model) != OWN for model in self._models] + [True]
        for pool, each, has_pages in zip(pools, kinds, packed, strict=False):
            if self._models[0].device.type != "cpu" and has_pages:
                pool.allocate(each)
        return pools

    @property
    def _most(self) -> int:
        return self._models[0].context_length + _BEHIND

    def new_runner(self, model: LoadedModel, max_rows: int) -> ModelRunner:
        """Return a runner of one of the models with rows of its own. Who has it clears its cache."""
        which = next(i for i, known in enumerate(self._models) if known is model)
        return runner_of(
            model.model,
            min(each.vocab_size for each in (self._models[0], model)),
            max_rows,
            pool=self._pools[which],
            most=self._most,
            scatters_by_kernel=self._scatters_by_kernel,
            cost=self._costs.prompts[which],
            taps=() if which else self._taps,
        )

    def _new_head_runner(self, head: LoadedHead, target: ModelRunner) -> BlockRunner:
        return BlockRunner(head, target, self._costs.prompts[-1], self._pools[-1])

    @contextmanager
    def acquire(self, max_rows: int) -> Iterator[Runners]:
        """Give runners to one batch of up to `max_rows` rows.

        The kept pair serves one batch at a time; a batch that starts while another one waits for its caller gets new
        runners, without graphs.
        """
        if self._verify is None or self._is_in_use:
            each = [self.new_runner(model, max_rows) for model in self._models]
            head = self._new_head_runner(self._head, each[0]) if self._head is not None else None
            memory = self._store.open(_caches(each, head))
            try:
                yield self._runners(each, head, memory)
            finally:
                self._store.close(memory)
            return
        assert self._kept_memory is not None
        self._is_in_use = True
        try:
            yield self._runners(self._kept, self._kept_head, self._kept_memory, self._verify, self._draft)
        finally:
            self._is_in_use = False
            self._kept_memory.clear()
            self._drop_failed()

    def _runners(
        self,
        each: Sequence[ModelRunner],
        head: BlockRunner | None,
        memory: Account,
        verify: VerifyGraphs | None = None,
        draft: DraftGraphs | BlockGraphs | None = None,
    ) -> Runners:
        drafting: DraftRunner | BlockDrafts | None = None
        if head is not None:
            assert not isinstance(draft, DraftGraphs)
            drafting = BlockDrafts(head, self._rule, draft)
        elif len(each) > 1:
            assert not isinstance(draft, BlockGraphs)
            drafting = DraftRunner(each[1], self._rule, draft)
        graphs = tuple(graphs for graphs in (verify, draft) if graphs is not None)
        return Runners(TargetRunner(each[0], self._rule, verify), drafting, memory, graphs)

    @property
    def has_graphs(self) -> bool:
        """Whether rounds run as graphs, as far as is known."""
        return self._verify is not None and self._verify.ready

    @property
    def has_failed(self) -> bool:
        """Whether a capture has failed."""
        return self._has_dropped or any(each is not None and not each.ready for each in (self._verify, self._draft))

    @property
    def n_bytes(self) -> int:
        """The bytes of the caches and graphs that stay between batches."""
        kept = (self._store, self._verify, self._draft)
        return sum(each.n_bytes for each in kept if each is not None)

    @torch.inference_mode()
    def capture(self, longest_draft: int) -> None:
        """Capture all graphs, if there are any, so that no request's clock pays for it."""
        if self._verify is None:
            return
        self._verify.prepare(self._max_batch, longest_draft)
        if self._draft is not None:
            self._draft.prepare(self._max_batch)
        self._drop_failed()

    def _drop_failed(self) -> None:
        """Drop graphs whose capture has failed, with the caches that were kept for them."""
        self._has_dropped = self.has_failed
        if self._verify is not None and not self._verify.ready:
            self.drop_graphs()
        if self._draft is not None and not self._draft.ready:
            self.drop_draft_graphs()

    def drop_graphs(self) -> None:
        """Run all rounds without graphs from now on, and give their buffers back."""
        if self._kept_memory is not None:
            self._store.close(self._kept_memory)
        self._verify = self._draft = self._kept_head = self._kept_memory = None
        self._kept = []

    def drop_draft_graphs(self) -> None:
        """Run the draft model or head without graphs from now on, over the buffers that they had."""
        self._draft = None


def _caches(each: Sequence[ModelRunner], head: BlockRunner | None) -> list[RaggedCache]:
    """Return the caches of the runners of one batch, the target's first."""
    caches = [runner.cache for runner in each]
    return caches if head is None else [*caches, head.cache]


def _kinds(model: LoadedModel, taps: Sequence[int]) -> Kinds:
    with one_thread() if model.weights == "int8" else all_threads():
        return kinds_of(runner_of(model.model, model.vocab_size, 1, most=1, taps=taps))
