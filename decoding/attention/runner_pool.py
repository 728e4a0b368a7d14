"""The runners of an engine's models: new ones for each batch, or a set that keeps its caches and CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from decoding.acceptance.rule import AcceptanceRule
from decoding.attention.backends import OWN, get_backend
from decoding.attention.block_runner import BlockRunner
from decoding.attention.drafting import BlockSampler, DraftRunner
from decoding.attention.drawing_graphs import BlockGraphs, DraftGraphs
from decoding.attention.graphs import Graphs, round_up_rows
from decoding.attention.recurrence import is_recurrent
from decoding.attention.row_by_row import make_runner, measure_cache
from decoding.attention.runner import ModelRunner
from decoding.attention.target_runner import TargetRunner
from decoding.attention.verify_graphs import VerifyGraphs
from decoding.costs import Costs
from decoding.limits import MAX_DRAFT_LENGTH, MAX_SERVED
from decoding.memory.pages import BufferSpecs, PagePool
from decoding.memory.store import KVStore, MemoryAccount
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead
from decoding.models.weight_formats import use_threads_for

# What each model keeps of earlier prompts: about 20,000 tokens of qwen2.5-coder-0.5b in bf16, 9,000 of the 1.5b.
_IDLE_BYTES = 256 * 2**20
# What a row may have behind its text: a rejected draft, and one token more.
_BEHIND = MAX_DRAFT_LENGTH + 1
# Shapes for each line of progress: a capture takes some hundredths of a second.
_REPORTED_SHAPES = 10


@dataclass(frozen=True, slots=True)
class Runners:
    """The target, and the draft model or trained head if there is one, with empty caches, for one batch.

    `memory` is what its requests take for their rows. `shares_rows` says whether samples that agree may share a row: in
    a graph each has its own, because a GPU verifies many rows as fast as one and shapes stay the same.
    """

    target: TargetRunner
    draft: DraftRunner | BlockSampler | None
    memory: MemoryAccount

    @property
    def graphs(self) -> tuple[Graphs[Any], ...]:
        """The CUDA graphs that they run in."""
        drawing = None if self.draft is None else self.draft.graphs
        return tuple(graphs for graphs in (self.target.graphs, drawing) if graphs is not None)

    @property
    def shares_rows(self) -> bool:
        """Whether a row may carry several samples."""
        return not self.graphs

    @property
    def captured_s(self) -> float:
        """Seconds that captures have taken so far."""
        return sum(graphs.captured_s for graphs in self.graphs)


class _Drafting(NamedTuple):
    """What drafts beside the target: a model or a trained head, each with its own graphs and its own loop."""

    make_runner: Callable[[ModelRunner, int], ModelRunner | BlockRunner]
    graphs: Callable[..., DraftGraphs | BlockGraphs]
    drafts: Callable[..., DraftRunner | BlockSampler]


class RunnerPool:
    """Makes the runners of each batch; with `graphs`, one set is kept whose rounds run as CUDA graphs."""

    def __init__(
        self,
        target: LoadedModel,
        draft: LoadedModel | None,
        rule: AcceptanceRule,
        max_batch: int,
        *,
        graphs: bool | None,
        disabled: Collection[str],
        costs: Costs,
        store: KVStore,
        head: LoadedHead | None = None,
    ) -> None:
        """`disabled` names kernels that do not work here (`checks/self_check.py`); `head` drafts for the target.

        `graphs` is by default whether the device and the models support them. Prefills report to `costs`; all caches
        take their memory from `store`.
        """
        self._models = [model for model in (target, draft) if model is not None]
        self._rule = rule
        self._taps = head.head.shape.taps if head is not None else ()
        self._max_batch = max_batch
        self._disabled = disabled
        self._costs = costs
        self._store = store
        self._pools = self._make_pools(head)
        self._drafting: _Drafting | None = None
        if draft is not None:
            self._drafting = _Drafting(lambda _, rows: self.make_runner(draft, rows), DraftGraphs, DraftRunner)
        elif head is not None:
            self._drafting = _Drafting(
                lambda target, _: BlockRunner(head, target, costs.prompts[-1], self._pools[-1]),
                BlockGraphs,
                BlockSampler,
            )
        self._kept: Runners | None = None
        self._is_in_use = False
        # No capture succeeded, and the graphs were dropped.
        self._has_dropped = False
        if graphs is None:
            graphs = target.device.type == "cuda" and all(map(supports_graphs, self._models))
        if graphs:
            self._kept = self._make(round_up_rows(max_batch), in_graphs=True)

    def _make_pools(self, head: LoadedHead | None) -> list[PagePool]:
        """Return the pages of each model and of the head; a row-by-row model has nothing in its pages."""
        measured = [
            model.compute_once(f"what a cache holds, taps {taps}", partial(_measure_cache, model, taps))
            for model, taps in zip(self._models, (self._taps, ()), strict=False)
        ]
        specs = [each for each, _ in measured]
        if head is not None:
            specs.append(head.head.buffer_specs)
        rows = max(round_up_rows(self._max_batch), MAX_SERVED)
        pools = self._store.divide(
            specs,
            rows * (self._max_tokens + self._store.page_size),
            _IDLE_BYTES,
            state_bytes=measured[0][1],
            max_rows=rows,
        )
        packed = [get_backend(model.model) != OWN for model in self._models] + [True]
        for pool, each, has_pages in zip(pools, specs, packed, strict=False):
            if self._models[0].device.type != "cpu" and has_pages:
                pool.allocate(each)
        return pools

    @property
    def _max_tokens(self) -> int:
        return self._models[0].context_length + _BEHIND

    def make_runner(self, model: LoadedModel, max_rows: int) -> ModelRunner:
        """Return a runner of one of the models with rows of its own. Who has it clears its cache."""
        which = next(i for i, known in enumerate(self._models) if known is model)
        return make_runner(
            model.model,
            min(each.vocab_size for each in (self._models[0], model)),
            max_rows,
            pool=self._pools[which],
            max_tokens=self._max_tokens,
            scatters_by_kernel="kv_scatter" not in self._disabled,
            cost=self._costs.prompts[which],
            taps=() if which else self._taps,
        )

    def _make(self, max_rows: int, *, in_graphs: bool = False) -> Runners:
        """Return new runners, with graphs if these are asked for and their kernels work."""
        target = self.make_runner(self._models[0], max_rows)
        caches, draft = [target.cache], None
        verify = VerifyGraphs(target, self._rule, uses_kernel="accept" not in self._disabled) if in_graphs else None
        if self._drafting is not None:
            drafter = self._drafting.make_runner(target, max_rows)
            caches.append(drafter.cache)
            draws_in_graphs = in_graphs and "draw" not in self._disabled
            drawing = self._drafting.graphs(drafter, self._rule) if draws_in_graphs else None
            draft = self._drafting.drafts(drafter, self._rule, drawing)
        return Runners(TargetRunner(target, self._rule, verify), draft, self._store.open(caches))

    @contextmanager
    def acquire(self, max_rows: int) -> Iterator[Runners]:
        """Give runners to one batch of up to `max_rows` rows.

        The kept ones serve one batch at a time; a batch that starts while another one waits for its caller gets new
        runners, without graphs.
        """
        kept = None if self._is_in_use else self._kept
        if kept is None:
            made = self._make(max_rows)
            try:
                yield made
            finally:
                self._store.close(made.memory)
            return
        self._is_in_use = True
        try:
            yield kept
        finally:
            self._is_in_use = False
            kept.memory.clear()
            self._drop_failed()

    @property
    def has_graphs(self) -> bool:
        """Whether rounds run as graphs, as far as is known."""
        return (
            self._kept is not None and self._kept.target.graphs is not None and not self._kept.target.graphs.all_failed
        )

    @property
    def has_failed(self) -> bool:
        """Whether a capture has failed."""
        return self._has_dropped or any(graphs.failed for graphs in self._graphs)

    @property
    def _graphs(self) -> tuple[Graphs[Any], ...]:
        return () if self._kept is None else self._kept.graphs

    @property
    def n_bytes(self) -> int:
        """The bytes of the caches and graphs that stay between batches."""
        return self._store.n_bytes + sum(graphs.n_bytes for graphs in self._graphs)

    @torch.inference_mode()
    def capture(self, longest_draft: int, on_progress: Callable[[str], None] | None = None) -> None:
        """Capture all graphs, if there are any, so that no request's clock pays for it."""
        wanted = [
            (graphs, shape) for graphs in self._graphs for shape in graphs.list_shapes(self._max_batch, longest_draft)
        ]
        for n, (graphs, shape) in enumerate(wanted, start=1):
            if on_progress is not None and n % _REPORTED_SHAPES == 1:
                on_progress(f"{graphs.runner.name}: capturing CUDA graphs, shape {n} of {len(wanted)}")
            graphs.capture(shape)
        self._drop_failed()

    def _drop_failed(self) -> None:
        """Drop the graphs of a model if none could be captured, the target's with all others."""
        if not any(graphs.all_failed for graphs in self._graphs):
            return
        self._has_dropped = True
        if self.has_graphs:
            self.drop_draft_graphs()
        else:
            self.drop_graphs()

    def drop_graphs(self) -> None:
        """Run all rounds without graphs from now on, and give their buffers back."""
        if self._kept is not None:
            self._store.close(self._kept.memory)
        self._kept = None

    def drop_draft_graphs(self) -> None:
        """Run the draft model or head without graphs from now on, over the buffers that they had."""
        if self._kept is not None and self._kept.draft is not None:
            self._kept.draft.graphs = None


def supports_graphs(model: LoadedModel) -> bool:
    """Return whether a model's rounds can be CUDA graphs."""
    # Not with recurrent layers: what they read and commit depends on how many tokens each row has.
    return get_backend(model.model).supports_graphs and not is_recurrent(model.model)


def _measure_cache(model: LoadedModel, taps: Sequence[int]) -> tuple[BufferSpecs, int]:
    with use_threads_for(model.weights):
        return measure_cache(make_runner(model.model, model.vocab_size, 1, max_tokens=1, taps=taps))
