"""Batched speculative decoding under a wall-clock budget: the loop of BASS (arXiv 2404.15778).

    prefill the prompt once, share it with n rows
    until every sample has ended or the next round would miss the deadline:
        draft    each row proposes up to k tokens
        verify   the target scores all rows' proposals in one forward
        accept   per row, as many tokens as the lossless rule lets stand, and one of the target's own
        commit   each row advances by its own number of tokens

A sample finishes the moment it stops, hits its length or runs out of time; its slot goes to the next one at once.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property

import torch
import transformers

from decoding.acceptance.sampling import shape
from decoding.attention.backends import backend_of, pick_attention
from decoding.attention.graphed_models import GraphedModels
from decoding.attention.row_by_row import runner_of
from decoding.attention.runner import ModelRunner
from decoding.checks import self_check
from decoding.checks.compatibility import fit
from decoding.checks.invariance import MIN_ROWS, is_batch_invariant
from decoding.config import MAX_DRAFT_LENGTH, EngineConfig, parse_draft_length, parse_drafter
from decoding.draft_length.goodput import AcceptanceModel
from decoding.draft_length.policies import BassLength, DraftLength, FixedLength, GoodputLength, TableLength
from decoding.draft_length.profiles import Profile, find
from decoding.draft_length.round_cost import RoundCost
from decoding.draft_length.verify_cost import SIZES, VerifyCost, measure
from decoding.drafters.base import Drafter, NoDrafter
from decoding.drafters.combined import LookupThenModel
from decoding.drafters.lookup import LookupDrafter
from decoding.drafters.model import ModelDrafter
from decoding.loop.batch import Batch
from decoding.loop.round import Decoding
from decoding.models.device import device_name, pick_device
from decoding.models.loaded import LoadedModel
from decoding.models.loading import check_same_tokenizer, load
from decoding.models.packing import prepack
from decoding.request import (
    Completion,
    OnUpdate,
    OnUpdateOf,
    Origin,
    Request,
    RequestError,
    SamplingParams,
    ShouldCancel,
    Update,
)
from decoding.state.clock import CostTimer
from decoding.state.request_state import ActiveRequest, encode
from decoding.state.row import Row


class Engine:
    """A target, a drafter and the rules between them; decodes one request at a time, or many in one batch."""

    def __init__(
        self,
        config: EngineConfig,
        target: LoadedModel,
        draft: LoadedModel | None,
        *,
        graphs: bool | None = None,
        disabled: Mapping[str, str] | None = None,
    ) -> None:
        """`graphs` runs rounds as CUDA graphs; by default on a GPU with an attention backend that supports them.

        On a CPU, where tests ask for it, a graph is replayed by running its work again. `disabled` says of kernels by
        their names why they must not be used.
        """
        self.config = config
        self.target = target
        self.draft = draft
        # Costs learnt from earlier requests, so that the first round of the next can be predicted.
        self._acceptance = AcceptanceModel()
        self._rounds = CostTimer()
        self._prefill_tokens: defaultdict[int, CostTimer] = defaultdict(CostTimer)
        if graphs is None:
            models = [target.model] if draft is None else [target.model, draft.model]
            graphs = target.device.type == "cuda" and all(backend_of(model).supports_graphs for model in models)
        self._disabled = dict(disabled or {})
        self._graphs = GraphedModels(target, draft, config, self._disabled) if graphs else None

    @classmethod
    def load(cls, config: EngineConfig, on_progress: Callable[[str], None] | None = None) -> Engine:
        """Return an engine with its models in memory and warmed up. Raises ModelError or RequestError."""
        target = load_model(config, config.target, on_progress)
        spec = parse_drafter(config.drafter)
        draft = None
        if spec.model is not None:
            draft = load_model(config, spec.model, on_progress)
            check_same_tokenizer(target, draft)
        on_gpu = target.device.type == "cuda"
        disabled = self_check.check_kernels([target] if draft is None else [target, draft]) if on_gpu else {}
        engine = cls(config, target, draft, disabled=disabled)
        engine._warm_up()
        if on_gpu:
            engine._check_graphs()
            self_check.warn(engine._disabled, device_name(target.device))
        return engine

    # What the caller needs to know to write a prompt -----------------------------------------------------------

    @property
    def has_chat_template(self) -> bool:
        """Whether the target was trained to converse."""
        return self.target.has_chat_template

    @property
    def fim_tokens(self) -> tuple[str, str, str] | None:
        """Fill-in-the-middle markers (prefix, suffix, middle) of the target's family, or None."""
        return self.target.fim_tokens

    @property
    def context_length(self) -> int:
        """Tokens the target can look at, prompt and output together."""
        return self.target.context_length

    def provenance(self) -> dict[str, str | int | None]:
        """Return what a figure was measured with: models by hash, device, precision and versions."""
        facts: dict[str, str | int | None] = {
            "target": self.target.name,
            "target_sha256": self.target.sha256,
            "target_parameters": self.target.n_parameters,
            "draft": self.draft.name if self.draft else None,
            "draft_sha256": self.draft.sha256 if self.draft else None,
            "draft_parameters": self.draft.n_parameters if self.draft else None,
            "device": device_name(self.target.device),
            "threads": torch.get_num_threads() if self.target.device.type == "cpu" else None,
            "dtype": str(self.target.dtype).removeprefix("torch."),
            "attention": backend_of(self.target.model).name,
            "disabled": ", ".join(self.disabled) or None,
            "batch_invariant": self.batch_invariant,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        return facts

    @property
    def disabled(self) -> list[str]:
        """The kernels and graphs that were switched off because they do not work on this device."""
        failed = {"graphs"} if self._graphs is not None and not self._graphs.ready else set()
        return sorted({*self._disabled, *failed})

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a prompt has."""
        return len(encode(self.target, text))

    def render_chat(self, messages: list[dict[str, str]], reply_prefix: str) -> str:
        """Return the prompt text of a conversation with the reply already begun by `reply_prefix`."""
        text: str = self.target.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return text + reply_prefix

    # Decoding --------------------------------------------------------------------------------------------------

    def generate(
        self, request: Request, on_update: OnUpdate | None = None, should_cancel: ShouldCancel | None = None
    ) -> Completion:
        """Return n samples of a prompt, finished or cut off by the deadline, each with its own clock.

        `on_update` is called after each round with what the round added; `should_cancel` is asked before each.
        Raises RequestError when the prompt does not leave room for one token, BrokenModelError when the logits are
        not numbers.
        """

        def told(_position: int, updates: Sequence[Update]) -> None:
            if on_update is not None:
                on_update(updates)

        ((_, outcome),) = self._decode([request], min(request.n, self.config.max_batch), told, should_cancel)
        if isinstance(outcome, RequestError):
            raise outcome
        return outcome

    def generate_many(
        self,
        requests: Iterable[Request],
        on_update: OnUpdateOf | None = None,
        should_cancel: ShouldCancel | None = None,
    ) -> Iterator[tuple[int, Completion | RequestError]]:
        """Decode several prompts in one batch, for throughput; yield (position, outcome) as each request is done.

        The next request is taken from `requests`, and its clock started, when the others leave room for a sample of
        its own; all share the sampling parameters of the first. A request that cannot be honoured yields its
        RequestError. Once `should_cancel` says so no further request is taken. Raises BrokenModelError.
        """
        return self._decode(requests, self.config.max_batch, on_update, should_cancel)

    @torch.inference_mode()
    def _decode(
        self,
        requests: Iterable[Request],
        max_samples: int,
        on_update: OnUpdateOf | None,
        should_cancel: ShouldCancel | None,
    ) -> Iterator[tuple[int, Completion | RequestError]]:
        policy = self._make_policy()
        # A batch that is decoded while another waits for its caller has caches of its own, and no graphs over them.
        graphs = None if self._graphs is None or self._graphs.is_lent else self._graphs
        for timer in (self._rounds, *self._prefill_tokens.values()):
            timer.restart()
        with nullcontext() if graphs is None else graphs.lent():
            work = self._begin(max_samples, policy, graphs)
            yield from self._work_off(work, graphs, requests, on_update, should_cancel)

    def _work_off(
        self,
        work: Decoding,
        graphs: GraphedModels | None,
        requests: Iterable[Request],
        on_update: OnUpdateOf | None,
        should_cancel: ShouldCancel | None,
    ) -> Iterator[tuple[int, Completion | RequestError]]:
        batch, incoming = work.batch, enumerate(requests)
        cancelled = False
        while True:
            while not cancelled and self._has_room(batch) and (arrival := next(incoming, None)):
                position, request = arrival
                try:
                    active = self._take_up(position, request, batch)
                except RequestError as error:
                    yield position, error
                    continue
                yield from self._admit(active, batch, on_update, should_cancel)
            if not batch.active:
                return
            cancelled = should_cancel is not None and should_cancel()
            expected_s = self._rounds.expected_s + (graphs.capture_ahead_s if graphs else 0.0)
            for active in batch.active:
                if cancelled:
                    _publish(batch.finish(active, "cancelled"), on_update)
                elif not active.clock.fits(expected_s):
                    if not active.rounds:
                        self._rounds.halve()
                    _publish(batch.finish(active, "deadline"), on_update)
            done = batch.retire()
            if batch.rows:
                started, captured_s = time.perf_counter(), graphs.captured_s if graphs else 0.0
                added = work.round()
                _publish(batch.rows, on_update, added)
                done += batch.retire()
                # What a round takes to capture its graphs says nothing about the next.
                capture_s = graphs.captured_s - captured_s if graphs else 0.0
                self._rounds.observe(time.perf_counter() - started - capture_s)
            for active in done:
                yield active.position, active.completion(self.target)

    def _begin(self, max_samples: int, policy: DraftLength, graphs: GraphedModels | None) -> Decoding:
        target = self._runner(self.target, max_samples, graphs)
        # Under the maximal rule a draft drawn once for several samples would make these depend on each other.
        # In a graph each sample has its row: a GPU verifies many rows as fast as one, and shapes stay the same.
        shared = graphs is None and (self.config.acceptance == "coupled" or self.draft is None)
        drafter = self._make_drafter(max_samples, graphs)
        batch = Batch(self.target, target, drafter, max_samples=max_samples, shared=shared)
        return Decoding(batch, self.target, policy, self.config.acceptance, graphs.verify if graphs else None)

    def _runner(self, model: LoadedModel, max_rows: int, graphs: GraphedModels | None) -> ModelRunner:
        """Return a runner with an empty cache: a new one, or the one whose buffers the graphs were captured over."""
        if graphs is not None:
            runner = graphs.runner(model)
        else:
            vocab_size, scatters = min(self.target.vocab_size, model.vocab_size), "kv_scatter" not in self._disabled
            runner = runner_of(model.model, vocab_size, max_rows, scatters_by_kernel=scatters)
        runner.token_timer = self._prefill_tokens[id(model)]
        return runner

    def _has_room(self, batch: Batch) -> bool:
        """Whether there is a place for another sample, and time for its prefill before the others' deadlines."""
        round_s, token_s = self._rounds.expected_s, self._prefill_tokens[id(self.target)].expected_s
        return batch.n_free > 0 and all(
            active.clock.fits(round_s + token_s * len(active.prompt)) for active in batch.active
        )

    def _take_up(self, position: int, request: Request, batch: Batch) -> ActiveRequest:
        """Start a request's clock. Raises RequestError if it cannot be decoded in this batch."""
        active = ActiveRequest.take_up(position, request, self.target)
        if batch.active and request.sampling != batch.active[0].request.sampling:
            raise RequestError("sampling differs from that of the request before: decode it in a batch of its own")
        return active

    def _admit(
        self, active: ActiveRequest, batch: Batch, on_update: OnUpdateOf | None, should_cancel: ShouldCancel | None
    ) -> Iterator[tuple[int, Completion]]:
        """Prefill a request's prompt in pieces; yield what is over by then, itself if it cannot get to a round."""
        for n_pieces, ahead in enumerate(batch.admit(active)):
            # The others stand still meanwhile, but come back in time with what they have.
            for other in [o for o in batch.active if o is not active and not o.clock.fits(ahead.next_s)]:
                _publish(batch.finish(other, "deadline"), on_update)
                batch.active.remove(other)
                yield other.position, other.completion(self.target)
            if n_pieces and should_cancel is not None and should_cancel():
                _publish(batch.finish(active, "cancelled"), on_update)
                break
            if not active.clock.fits(ahead.rest_s):
                if not n_pieces:
                    for timer in self._prefill_tokens.values():
                        timer.halve()
                _publish(batch.finish(active, "deadline"), on_update)
                break
        active.prefill_s = active.clock.elapsed
        for done in batch.retire():
            yield done.position, done.completion(self.target)

    def _make_drafter(self, max_rows: int, graphs: GraphedModels | None) -> Drafter:
        spec = parse_drafter(self.config.drafter)
        shared = spec.lookup == "sibling"
        if self.draft is None:
            return LookupDrafter(shared=shared) if spec.lookup else NoDrafter()
        runner = self._runner(self.draft, max_rows, graphs)
        model = ModelDrafter(runner, graphs.draft if graphs else None, coupled=self.config.acceptance == "coupled")
        return LookupThenModel(model, shared=shared) if spec.lookup else model

    def _make_policy(self) -> DraftLength:
        """Return the policy that the configuration names, in its starting state."""
        match self.config.draft_length:
            case "goodput":
                return GoodputLength(self._acceptance, self.round_cost, drafts_cost_time=self.draft is not None)
            case "bass":
                return BassLength()
            case "table":
                return TableLength(self._profile)
            case fixed:
                return FixedLength(parse_draft_length(fixed) or 0)

    @cached_property
    def _profile(self) -> Profile:
        profile = find(self.profile_key)
        if profile is None:
            raise RequestError(
                "draft_length is 'table' and there is no profile of this target, drafter and device: make one with "
                f"`bassline bench profile --target {self.config.target} --drafter {self.config.drafter}`"
            )
        return profile

    @property
    def profile_key(self) -> dict[str, str]:
        """What a draft-length profile depends on."""
        facts = self.provenance()
        names = ("target", "target_sha256", "draft_sha256", "device", "threads", "dtype", "torch")
        return {
            "drafter": self.config.drafter,
            "acceptance": self.config.acceptance,
            **{name: str(facts[name]) for name in names},
        }

    @cached_property
    @torch.inference_mode()
    def verify_cost(self) -> VerifyCost:
        """What a verify costs here by its number of tokens; measured once, when the engine is loaded or first asked."""
        if self._graphs is not None and not self._graphs.is_lent:
            return measure(self._graphs.verify_of)
        longest = min(SIZES[-1], self.target.context_length - 1)
        runner = self._runner(self.target, 1, None)
        for _ in runner.start(0, [0], 1 + longest):
            pass
        sampling = SamplingParams()

        def verify(n_tokens: int) -> None:
            shape(runner.forward([[0] * min(n_tokens, longest)]), sampling)

        return measure(verify)

    @cached_property
    def batch_invariant(self) -> bool:
        """Whether a token's logits do not depend on its batch here, so that a repeat gives the same texts."""
        return is_batch_invariant(self._runner(self.target, MIN_ROWS, None))

    @cached_property
    def round_cost(self) -> RoundCost:
        """What a round costs, as measured and as learnt from the rounds of all requests so far."""
        return RoundCost(self.verify_cost)

    def _warm_up(self) -> None:
        """Decode a few tokens, so that the costs of a prefill and of a round are known before they matter."""
        if self._graphs is not None:
            fixed = parse_draft_length(self.config.draft_length)
            self._graphs.prepare(0 if self.config.drafter == "none" else MAX_DRAFT_LENGTH if fixed is None else fixed)
        self.generate(Request(prompt="def add(a, b):\n    return a + b\n" * 4, n=2, max_new_tokens=8))

    def _check_graphs(self) -> None:
        """Compare what graphs compute with forwards without; switch off what differs or fails."""
        graphs = self._graphs
        if graphs is None or not graphs.ready:
            return
        runner = self._runner(self.target, 1, None)
        if doubt := self_check.doubt_about_rounds(self.target, runner, self.generate_many):
            self._disabled["graphs"] = doubt
            self._graphs = None
            # Costs were learnt from rounds in graphs.
            for cost in ("verify_cost", "round_cost"):
                self.__dict__.pop(cost, None)
            self._warm_up()
        elif self.draft is not None and graphs.draft is not None:
            runner = self._runner(self.draft, 1, None)
            if doubt := self_check.doubt_about_drafts(self.target, runner, graphs.draft):
                self._disabled["draft graphs"] = doubt
                graphs.draft = None


def _publish(
    rows: Sequence[Row], on_update: OnUpdateOf | None, added: Sequence[tuple[Origin, ...]] | None = None
) -> None:
    if on_update is None:
        return
    updates: dict[ActiveRequest, list[Update]] = {}
    for slot, row in enumerate(rows):
        updates.setdefault(row.active, []).extend(
            Update(
                index=sample.index,
                text=row.stream.text,
                n_tokens=sample.n_tokens,
                origins=added[slot] if added else (),
                mean_logprob=sample.mean_logprob,
                elapsed_s=row.active.clock.elapsed,
                finish_reason=sample.finish_reason,
                ends=tuple(sample.ends[-len(added[slot]) :]) if added and added[slot] else (),
            )
            for sample in row.samples
        )
    for active, news in updates.items():
        on_update(active.position, news)


def load_model(config: EngineConfig, ref: str, on_progress: Callable[[str], None] | None = None) -> LoadedModel:
    """Load a model with an attention backend that suits it and, on a CPU, prepacked weights. Raises ModelError."""
    pick_attention(config.attention, pick_device(config.device))  # one that does not run here is refused at once
    loaded = load(ref, config.dtype, config.device, on_progress)
    fit(loaded, config.attention, on_progress)
    prepack(loaded.model)
    return loaded
