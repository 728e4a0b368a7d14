"""An engine's models with the caches and graphs that stay with them from request to request."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch

from decoding.acceptance.noise import Role
from decoding.attention.graphs import DraftGraphs, Graphs, VerifyGraphs, bucket_rows
from decoding.attention.runner import ModelRunner
from decoding.config import MAX_DRAFT_LENGTH, EngineConfig
from decoding.drafters.base import MODEL_EVIDENCE, Proposal
from decoding.models.loaded import LoadedModel
from decoding.request import SamplingParams

# Slots by which a cache grows. When it moves, its graphs have to be captured anew.
_CAPACITY_STEP = 2048


class GraphedModels:
    """The target, and the draft model if there is one, each over one cache that its graphs were captured over."""

    def __init__(
        self,
        target: LoadedModel,
        draft: LoadedModel | None,
        config: EngineConfig,
        disabled: Collection[str] = (),
    ) -> None:
        """`disabled` names kernels that do not work here (`self_check.py`)."""
        rows = bucket_rows(config.max_batch)
        coupled = config.acceptance == "coupled"
        self._target = target
        self._max_batch = config.max_batch
        self.is_lent = False
        self._runners = {
            id(model): ModelRunner(
                model.model,
                min(target.vocab_size, model.vocab_size),
                rows,
                capacity_step=_CAPACITY_STEP,
                scatters_by_kernel="kv_scatter" not in disabled,
            )
            for model in (target, draft)
            if model is not None
        }
        uses_kernel = "accept" not in disabled
        self.verify = VerifyGraphs(self._runners[id(target)], coupled=coupled, uses_kernel=uses_kernel)
        self.draft = None
        if draft is not None:
            role = Role.SAMPLE if coupled else Role.DRAFT
            self.draft = DraftGraphs(self._runners[id(draft)], role, uses_kernel=uses_kernel)

    @torch.inference_mode()
    def prepare(self, longest_draft: int) -> None:
        """Capture all graphs; a request's clock should not pay for that."""
        for graphs in self._all:
            graphs.runner.cache.lens.clear()
            graphs.runner.cache.reserve(_CAPACITY_STEP)
        self.verify.prepare(self._max_batch, longest_draft)
        if self.draft is not None:
            self.draft.prepare(self._max_batch)

    @property
    def ready(self) -> bool:
        """Whether no capture has failed."""
        return all(graphs.ready for graphs in self._all)

    @property
    def captured_s(self) -> float:
        """The seconds that captures have taken so far."""
        return sum(graphs.captured_s for graphs in self._all)

    @property
    def capture_ahead_s(self) -> float:
        """What captures will take in the next round, because a prompt has made a cache move."""
        return sum(graphs.capture_ahead_s for graphs in self._all)

    @property
    def _all(self) -> list[Graphs]:
        return [self.verify] if self.draft is None else [self.verify, self.draft]

    def verify_of(self, n_tokens: int) -> None:
        """Verify that many tokens of made-up rows, eight a row if there is room, and wait for the outcome."""
        runner = self.runner(self._target)
        n_rows = min(-(-n_tokens // 8), runner.cache.max_rows)
        n_each = min(-(-n_tokens // n_rows), MAX_DRAFT_LENGTH + 1)
        runner.cache.reserve(_CAPACITY_STEP)
        runner.cache.lens += [1] * n_rows
        drafts = Proposal([[0] * (n_each - 1)] * n_rows, [MODEL_EVIDENCE] * n_rows)
        self.verify.verify([0] * n_rows, [0] * n_rows, drafts, SamplingParams())
        runner.cache.lens.clear()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lend the caches to one batch; another that is decoded meanwhile needs caches of its own."""
        self.is_lent = True
        try:
            yield
        finally:
            self.is_lent = False

    def runner(self, model: LoadedModel) -> ModelRunner:
        """Return the model's runner, its cache emptied."""
        runner = self._runners[id(model)]
        runner.cache.lens.clear()
        return runner
