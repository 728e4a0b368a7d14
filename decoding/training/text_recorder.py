"""Lets a target generate text and keeps its hidden states: one forward serves both.

The same prompts give the same recordings, whatever the time: nothing is drafted, no request has a deadline, and each
call of `TextRecorder.record` is a batch of its own. So a collection that was interrupted resumes with its next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

import torch

from decoding.acceptance.registry import make_rule
from decoding.attention.row_by_row import measure_cache
from decoding.attention.runner import ModelRunner
from decoding.attention.runner_pool import Runners, supports_graphs
from decoding.attention.taps import OUTPUT, TAPS, record_output_states
from decoding.attention.target_runner import TargetRunner
from decoding.attention.verify_graphs import VerifyGraphs
from decoding.costs import Costs
from decoding.draft_length.policies import FixedLength
from decoding.drafters.base import Drafter
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.loop.admission import SampleLengthModel
from decoding.loop.batch import Batch
from decoding.loop.intake import InOrderIntake
from decoding.loop.scheduler import Scheduler
from decoding.loop.step import Decoder
from decoding.memory.cache import RaggedCache
from decoding.memory.layout import Layout
from decoding.memory.pages import PAGE_SIZE
from decoding.memory.store import KVStore
from decoding.models.loaded import LoadedModel
from decoding.request import Request
from decoding.state.row import Row
from decoding.training.documents import RecordedText

MAX_ROWS = 32
"""Rows decoded together. On a CPU the tokens per second hardly grow beyond."""


class Recorder(Drafter):
    """Hands each row's recording to `keep` when the row ends; every row carries one sample."""

    def __init__(self, cache: RaggedCache, keep: Callable[[int, RecordedText], None]) -> None:
        """`cache` is the target's; `keep` gets the position of the request and the recording."""
        self._cache = cache
        self._keep = keep

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Keep the recordings of the rows that have just ended."""
        for row_index, row in enumerate(rows):
            first, n = len(row.state.prompt) - 1, len(row.tokens)
            if row.is_finished and n > first + 2:
                recording = RecordedText(
                    torch.tensor(row.tokens, dtype=torch.int32),
                    self._cache.read_recorded(TAPS, [(row_index, 0, n - 1)]).to("cpu", torch.bfloat16, copy=True),
                    self._cache.read_recorded(OUTPUT, [(row_index, first, n - 1)]).to("cpu", torch.bfloat16, copy=True),
                )
                self._keep(row.state.position, recording)


class RecordingRunner(ModelRunner):
    """Also records the input of the output layer for every token that a round verifies."""

    def forward_packed(self, packed: torch.Tensor, layout: Layout, keep: torch.Tensor | None) -> torch.Tensor:
        """Return what `ModelRunner.forward_packed` does."""
        with record_output_states(self.model) as found:
            logits = super().forward_packed(packed, layout, keep)
        if keep is None:
            self.cache.record(OUTPUT, found[OUTPUT].flatten(0, -2))
        return logits


class TextRecorder:
    """Lets one target write any number of batches; on a GPU its rounds are CUDA graphs, captured once."""

    def __init__(self, target: LoadedModel, taps: Sequence[int], *, graphs: bool | None = None) -> None:
        """`graphs` is by default whether the device and the model support them."""
        self._target = target
        self._costs = Costs()
        store = KVStore(target.device, PAGE_SIZE[target.device.type])
        specs, state_bytes = measure_cache(RecordingRunner(target.model, target.vocab_size, 1, max_tokens=1, taps=taps))
        max_tokens = target.context_length + MAX_DRAFT_LENGTH + 1
        n_tokens = MAX_ROWS * (max_tokens + store.page_size)
        (pool,) = store.divide([specs], n_tokens, 0, state_bytes=state_bytes, max_rows=MAX_ROWS)
        runner = RecordingRunner(
            target.model,
            target.vocab_size,
            MAX_ROWS,
            pool=pool,
            max_tokens=max_tokens,
            scatters_by_kernel="kv_scatter" not in target.disabled,
            cost=self._costs.prompts[0],
            taps=taps,
        )
        rule = make_rule("coupled")
        if graphs is None:
            graphs = target.device.type == "cuda" and supports_graphs(target)
        rounds = VerifyGraphs(runner, rule, uses_kernel="accept" not in target.disabled) if graphs else None
        if rounds is not None:
            pool.allocate(specs)  # graphs read and write where it stays
            with torch.inference_mode():
                for shape in rounds.list_shapes(MAX_ROWS, 0):
                    rounds.capture(shape)
        self._runners = Runners(TargetRunner(runner, rule, rounds), None, store.open([runner.cache]))

    @torch.inference_mode()
    def record(
        self,
        requests: Sequence[Request],
        on_done: Callable[[int], object] = lambda _n_tokens: None,
        should_cancel: Callable[[], bool] = lambda: False,
    ) -> list[tuple[str, RecordedText | None]]:
        """Return the text of each request, all of one sample, and its recording; None for one that is too short.

        `on_done` gets the tokens of each request that has ended. The texts are cut where `should_cancel` became true.
        Raises RequestError for a prompt that does not fit the target, BrokenModelError.
        """
        recordings: dict[int, RecordedText] = {}
        texts = [""] * len(requests)
        target, runners, costs = self._target, self._runners, self._costs
        recorder = Recorder(runners.target.cache, recordings.__setitem__)
        batch = Batch(target, runners.target, recorder, runners.memory, max_samples=MAX_ROWS, shares_rows=False)
        scheduler = Scheduler(
            Decoder(batch, target, FixedLength(0), costs),
            runners,
            costs,
            SampleLengthModel(),
            None,
            lambda _position: should_cancel(),
        )
        wanted = takewhile(lambda _request: not should_cancel(), requests)
        intake = InOrderIntake(wanted, target, scheduler.has_free_place, scheduler.fits_beside_others)
        try:
            for position, outcome in scheduler.run(intake):
                if isinstance(outcome, Exception):
                    raise outcome
                texts[position] = outcome.samples[0].text
                on_done(outcome.samples[0].n_tokens)
        finally:
            runners.memory.clear()
        return [(text, recordings.get(position)) for position, text in enumerate(texts)]
