"""Lets a target generate text and keeps its hidden states: one forward serves both.

The same prompts give the same recordings, whatever the time: nothing is drafted, no request has a deadline, and each
call of `record` is a batch of its own. So a collection that was interrupted resumes with its next batch of prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

import torch

from decoding.acceptance.registry import make_rule
from decoding.attention.row_by_row import measure_cache
from decoding.attention.runner import ModelRunner
from decoding.attention.runner_pool import Runners
from decoding.attention.taps import OUTPUT, record_output_states
from decoding.attention.target_runner import TargetRunner
from decoding.costs.costs import Costs
from decoding.draft_length.policies import FixedLength
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.loop.admission import SampleLengthModel
from decoding.loop.batch import Batch
from decoding.loop.intake import InOrderIntake
from decoding.loop.scheduler import Scheduler
from decoding.loop.step import Decoder
from decoding.memory.pages import PAGE_SIZE
from decoding.memory.store import KVStore
from decoding.models.loaded import LoadedModel
from decoding.request import Request
from decoding.training.recorder import RecordedText, Recorder

MAX_ROWS = 32
"""Rows decoded together. On a CPU the tokens per second hardly grow beyond."""


class RecordingRunner(ModelRunner):
    """Also records the input of the output layer for every token that a round verifies."""

    def forward(
        self,
        tokens: Sequence[Sequence[int]],
        *,
        n_last: Sequence[int] | None = None,
        first_row: int = 0,
        whole: bool = False,
    ) -> torch.Tensor:
        """Return what `ModelRunner.forward` does."""
        with record_output_states(self.model) as found:
            logits = super().forward(tokens, n_last=n_last, first_row=first_row, whole=whole)
        if n_last is None:
            self.cache.record(OUTPUT, found[-1].view(-1, found[-1].shape[-1]))
        return logits


@torch.inference_mode()
def record(
    target: LoadedModel,
    taps: Sequence[int],
    requests: Sequence[Request],
    on_done: Callable[[int], None] = lambda _n_tokens: None,
    should_cancel: Callable[[], bool] = lambda: False,
) -> list[tuple[str, RecordedText | None]]:
    """Return the text of each request, all of one sample, and its recording; None for one that is too short.

    `on_done` gets the tokens of each request that has ended. The texts are cut where `should_cancel` became true.
    Raises RequestError for a prompt that does not fit the target, BrokenModelError.
    """
    recordings: dict[int, RecordedText] = {}
    texts = [""] * len(requests)
    costs = Costs()
    store = KVStore(target.device, PAGE_SIZE[target.device.type])
    specs, state_bytes = measure_cache(RecordingRunner(target.model, target.vocab_size, 1, max_tokens=1, taps=taps))
    max_tokens = target.context_length + MAX_DRAFT_LENGTH + 1
    n_tokens = MAX_ROWS * (max_tokens + store.page_size)
    (pool,) = store.divide([specs], n_tokens, 0, state_bytes=state_bytes, max_rows=MAX_ROWS)
    runner = RecordingRunner(
        target.model, target.vocab_size, MAX_ROWS, pool=pool, max_tokens=max_tokens, cost=costs.prompts[0], taps=taps
    )
    verifier = TargetRunner(runner, make_rule("coupled"))
    recorder = Recorder(runner.cache, recordings.__setitem__)
    memory = store.open([runner.cache])
    batch = Batch(target, verifier, recorder, memory, max_samples=MAX_ROWS, shares_rows=False)
    scheduler = Scheduler(
        Decoder(batch, target, FixedLength(0), costs),
        Runners(verifier, None, memory),
        costs,
        SampleLengthModel(),
        None,
        lambda _position: should_cancel(),
    )
    wanted = takewhile(lambda _request: not should_cancel(), requests)
    for position, outcome in scheduler.run(
        InOrderIntake(wanted, target, scheduler.has_free_place, scheduler.fits_beside_others)
    ):
        if isinstance(outcome, Exception):
            raise outcome
        texts[position] = outcome.samples[0].text
        on_done(outcome.samples[0].n_tokens)
    return [(text, recordings.get(position)) for position, text in enumerate(texts)]
