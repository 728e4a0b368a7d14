"""Batched speculative decoding under a wall-clock budget: the engine of BASS (arXiv 2404.15778).

    prefill the prompt once, share it with n rows
    until every sample has ended or the next round would miss the deadline:
        draft    each row proposes up to k tokens
        verify   the target scores all rows' proposals in one forward
        accept   per sample, as many tokens as the lossless rule accepts, and one of the target's own
        commit   each row advances by its own number of tokens

A sample finishes the moment it stops, reaches its length or runs out of time; its slot goes to the next one at once.
The loop is `loop/scheduler.py` and `loop/step.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from jinja2 import TemplateError

from decoding.acceptance.registry import make_rule
from decoding.attention.runner_pool import RunnerPool
from decoding.checks.graph_check import find_errors
from decoding.checks.measurements import EngineMeasurements
from decoding.checks.self_check import warn_about_disabled
from decoding.config import EngineConfig, parse_draft_length
from decoding.costs import Costs
from decoding.draft_length.profiles import load_profile
from decoding.drafters.registry import parse_drafter
from decoding.limits import MAX_DRAFT_LENGTH, MAX_SERVED
from decoding.loop.decoding_loop import DecodingLoop
from decoding.loop.scheduler import Outcome
from decoding.memory.pages import PAGE_SIZE
from decoding.memory.store import KVStore
from decoding.models.device import get_device_name, is_out_of_memory
from decoding.models.errors import NoMemoryError
from decoding.models.infilling import InfillFormat
from decoding.models.loaded import LoadedModel, ModelSpec
from decoding.models.loading import check_same_tokenizer
from decoding.models.memory import count_weight_bytes
from decoding.models.trained_heads import LoadedHead
from decoding.prepare import ModelPool, load_head, load_model, refuse_recurrent_draft
from decoding.provenance import collect_provenance, select_profile_key
from decoding.request import (
    Calibration,
    Completion,
    OnBatchUpdate,
    OnUpdate,
    Request,
    RequestError,
    ShouldCancel,
    ShouldCancelRequest,
)
from decoding.state.token_text import check_known, decode_tokens

_models = ModelPool()
# Length of a prompt without repeated tokens.
_N_DISTINCT_TOKENS = 32


class Engine:
    """A target, a drafter and the rules between them; decodes one request at a time, or many in one batch.

    Engines share the models that they have in common, but not the costs, rates and texts that they learn.
    """

    def __init__(
        self,
        config: EngineConfig,
        target: LoadedModel,
        draft: LoadedModel | None,
        head: LoadedHead | None = None,
        *,
        graphs: bool | None = None,
        kv_bytes: int | None = None,
        page_size: int | None = None,
    ) -> None:
        """`head` is the target's trained drafter, if the configuration names it.

        `graphs` runs rounds as CUDA graphs; by default on a GPU with attention backends that support them. On a CPU,
        where tests ask for it, a graph is replayed by running its work again. `kv_bytes` is the memory for keys and
        values, on a GPU taken at once; by default most of what is free. `page_size` is the tokens of a page of it.
        """
        self.config = config
        self.target = target
        self.draft = draft
        self.head = head
        self._drafter = parse_drafter(config.drafter)
        # Costs learnt from earlier requests, so that the first round of the next can be predicted.
        measure_verify = lambda: self._measurements.get_verify_cost()  # noqa: E731, PLW0108 - made below, over the pool
        self.costs = Costs(1 + (draft is not None or head is not None), measure_verify)
        self._disabled = {name: why for each in self._loaded for name, why in each.disabled.items()}
        rule = make_rule(config.acceptance)
        self._pool = RunnerPool(
            target,
            draft,
            rule,
            config.max_batch,
            graphs=graphs,
            disabled=self._disabled,
            costs=self.costs,
            store=KVStore(target.device, page_size or PAGE_SIZE[target.device.type], kv_bytes),
            head=head,
        )
        self._measurements: EngineMeasurements = EngineMeasurements(target, self._pool)
        self._loop = DecodingLoop(
            config,
            target,
            rule,
            self._pool,
            self.costs,
            tokens_per_step=1 if head is None else head.head.n_proposed,
            load_profile=cache(lambda: load_profile(self.profile_key, config.target)),
        )

    @classmethod
    def load(cls, config: EngineConfig, on_progress: Callable[[str], None] | None = None) -> Engine:
        """Return an engine that is warmed up, with its models in memory, shared with the engines that have them.

        Raises ModelError (NoMemoryError if memory runs out) or RequestError.
        """
        try:
            target, *others = (_models.get(spec, partial(load_model, spec, on_progress)) for spec in config.models)
            draft = others[0] if others else None
            if draft is not None:
                refuse_recurrent_draft(draft)
                check_same_tokenizer(target, draft)
            engine = cls(config, target, draft, load_head(target) if parse_drafter(config.drafter).needs_head else None)
            engine.warm_up(on_progress)
            if target.device.type == "cuda":
                engine.check_graphs()
                warn_about_disabled(engine._disabled, get_device_name(target.device))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            names = " and ".join(spec.ref for spec in config.models)
            raise NoMemoryError(
                f"{names} cannot be loaded, because memory has run out: end other programs, or choose a smaller model."
            ) from error
        return engine

    @property
    def _loaded(self) -> list[LoadedModel]:
        return [self.target] if self.draft is None else [self.target, self.draft]

    # Facts for callers that write prompts or report figures -------------------------------------------------------

    @property
    def has_chat_template(self) -> bool:
        """Whether the target was trained to converse."""
        return self.target.has_chat_template

    @property
    def infill_format(self) -> InfillFormat | None:
        """How the target's family is asked to fill a gap, or None."""
        return self.target.infill_format

    def render_chat(
        self, messages: list[dict[str, str]], reply_prefix: str, template_kwargs: Mapping[str, Any] | None = None
    ) -> str:
        """Return the prompt text of a conversation with the reply already begun by `reply_prefix`.

        The template can read `template_kwargs`, such as enable_thinking. Raises RequestError for messages or values
        that the template refuses.
        """
        values, name = template_kwargs or {}, self.target.name
        try:
            text: str = self.target.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **values
            )
        except TemplateError as error:  # many templates refuse an order of roles
            raise RequestError(f"messages do not fit the chat template of {name}: {error}") from None
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            if not values:
                raise
            raise RequestError(f"chat_template_kwargs do not fit the chat template of {name}: {error}") from None
        return text + reply_prefix

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of token ids, special tokens included. Raises RequestError for an invalid token id."""
        check_known(self.target, tokens)
        return decode_tokens(self.target.tokenizer, tokens)

    def get_provenance(self) -> dict[str, str | int | None]:
        """Return the provenance of a figure: models by hash, device, precision and versions."""
        return {
            **collect_provenance(self.target, self.draft, self.head),
            "disabled": ", ".join(self.disabled) or None,
            "batch_invariant": self.batch_invariant,
        }

    @property
    def disabled(self) -> list[str]:
        """The kernels and graphs that were switched off because they do not work on this device."""
        return sorted({*self._disabled, *(["graphs"] if self._pool.has_failed else [])})

    @property
    def batch_invariant(self) -> bool:
        """Whether a token's logits do not depend on its batch here, so that a repeat gives the same texts."""
        return self._measurements.is_batch_invariant()

    def count_memory(self) -> dict[ModelSpec | EngineConfig, int]:
        """Return the bytes that the engine keeps: of each model, and, under its configuration, of caches and graphs.

        So a model that several engines share can be counted once.
        """
        head = 0 if self.head is None else count_weight_bytes(self.head.head)
        own: dict[ModelSpec | EngineConfig, int] = {self.config: self._pool.n_bytes + head}
        models = zip(self.config.models, self._loaded, strict=True)
        return own | {spec: count_weight_bytes(each.model) for spec, each in models}

    # Decoding -----------------------------------------------------------------------------------------------------

    def generate(
        self, request: Request, on_update: OnUpdate | None = None, should_cancel: ShouldCancel | None = None
    ) -> Completion:
        """Return n samples of a prompt, finished or cut off by the deadline, each with its own clock.

        `on_update` is called after each round with what the round added; `should_cancel` is asked before each.
        Raises RequestError when the prompt does not leave room for one token, BrokenModelError when the logits are
        not numbers.
        """
        publish = None if on_update is None else lambda _position, updates: on_update(updates)
        cancels = None if should_cancel is None else lambda _position: should_cancel()
        max_samples = min(request.n, self.config.max_batch)
        ((_, outcome),) = self._loop.decode([request], max_samples, publish, cancels)
        if isinstance(outcome, RequestError):
            raise outcome
        return outcome

    def generate_many(
        self,
        requests: Iterable[Request],
        on_update: OnBatchUpdate | None = None,
        should_cancel: ShouldCancelRequest | None = None,
    ) -> Iterator[Outcome]:
        """Decode several prompts in one batch, for throughput; yield (position, outcome) as each request is done.

        The next request is taken from `requests` when there is room for one of its samples. Its clock starts when
        the others leave room for it: memory, and time for its prefill. A request that cannot be honoured, or for which
        there is no memory, yields its RequestError. A request ends before the next round once
        `should_cancel` returns True for its position. Raises BrokenModelError.
        """
        return self._loop.decode(requests, self.config.max_batch, on_update, should_cancel)

    def serve(
        self,
        requests: Iterable[Request | None],
        on_update: OnBatchUpdate | None = None,
        should_cancel: ShouldCancelRequest | None = None,
    ) -> Iterator[Outcome]:
        """Decode requests of many users in one batch as they arrive; yield (position, outcome) as each is done.

        Before each round `requests` is asked for those that have arrived; it yields None if there are none now, and may
        wait once all earlier requests have been answered. `loop/admission.py` decides who joins, and when; a request
        whose budget ends first is answered with the samples there are. Returns once `requests` has ended and all are
        answered. Raises BrokenModelError.
        """
        # Kept graphs are sized for max_batch.
        max_samples = self.config.max_batch if self._pool.has_graphs else max(self.config.max_batch, MAX_SERVED)
        return self._loop.decode(requests, max_samples, on_update, should_cancel, as_they_arrive=True)

    # Measurements -------------------------------------------------------------------------------------------------

    def calibrate(self) -> Calibration:
        """Return how fast the machine is now. Takes less than a second on a CPU, and does not change later texts.

        Not to be called while requests are decoded: it would take their time.
        """
        return self._measurements.calibrate()

    @property
    def profile_key(self) -> dict[str, str]:
        """What a draft-length profile depends on."""
        return select_profile_key(self.config, self.get_provenance())

    # Loading ------------------------------------------------------------------------------------------------------

    def warm_up(self, on_progress: Callable[[str], None] | None = None) -> None:
        """Capture graphs, measure verifies and decode a few tokens, so that no request's clock pays for these.

        Then the costs of a prefill, a round and a draft step are known, whatever chooses the draft length. Also learns
        the facts of `provenance`, which must cost nothing later: a heartbeat asks for it.
        """
        fixed = parse_draft_length(self.config.draft_length)
        longest = MAX_DRAFT_LENGTH if fixed is None else fixed
        self._pool.capture(0 if self.config.drafter == "none" else longest, on_progress)
        distinct = tuple(range(_N_DISTINCT_TOKENS))
        self.generate(Request(prompt=distinct, max_new_tokens=1, prompt_logprobs=0))
        self.generate(Request(prompt="def add(a, b):\n    return a + b\n" * 12, n=2, max_new_tokens=8))
        if self._drafter.looks_up and (self._drafter.model or self._drafter.needs_head):
            # After tokens that are all different a lookup finds nothing, so the model drafts.
            self.generate(Request(prompt=distinct, n=2, max_new_tokens=8))
        self.get_provenance()

    def check_graphs(self) -> None:
        """Compare what graphs compute with forwards without; switch off what differs or fails."""
        errors = find_errors(self.target, self._pool, self.config.max_batch, self.generate_many)
        if errors.target is not None:
            self._disabled["graphs"] = errors.target
            self._pool.drop_graphs()
            self.costs.forget_rounds()  # they were learnt in graphs
            self.warm_up()
        elif errors.draft is not None:
            self._disabled["draft graphs"] = errors.draft
            self._pool.drop_draft_graphs()
