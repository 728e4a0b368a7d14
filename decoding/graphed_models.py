"""An engine's models with the caches and graphs that stay with them from request to request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from decoding.config import MAX_DRAFT_LENGTH, EngineConfig
from decoding.drafters.base import MODEL_EVIDENCE, Proposal
from decoding.graphs import DraftGraphs, VerifyGraphs, bucket_rows
from decoding.models import LoadedModel
from decoding.noise import Role
from decoding.request import SamplingParams
from decoding.runner import ModelRunner

# Slots by which a cache grows. When it moves, its graphs have to be captured anew.
_CAPACITY_STEP = 2048


class GraphedModels:
    """The target, and the draft model if there is one, each over one cache that its graphs were captured over."""

    def __init__(self, target: LoadedModel, draft: LoadedModel | None, config: EngineConfig) -> None:
        rows = bucket_rows(config.max_batch)
        coupled = config.acceptance == "coupled"
        self._target = target
        self._max_batch = config.max_batch
        self.is_lent = False
        self._runners = {
            id(model): ModelRunner(
                model.model, min(target.vocab_size, model.vocab_size), rows, capacity_step=_CAPACITY_STEP
            )
            for model in (target, draft)
            if model is not None
        }
        self.verify = VerifyGraphs(self._runners[id(target)], coupled=coupled)
        self.draft = None
        if draft is not None:
            self.draft = DraftGraphs(self._runners[id(draft)], Role.SAMPLE if coupled else Role.DRAFT)

    def prepare(self, longest_draft: int) -> None:
        """Capture the target's graphs; a request's clock should not pay for that."""
        runner = self.runner(self._target)
        runner.cache.reserve(_CAPACITY_STEP)
        self.verify.prepare(self._max_batch, longest_draft)

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
