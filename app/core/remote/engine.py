"""Another server behind the engine protocol: its samples are streamed, timed here, and cut off at the deadline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from importlib import metadata
from typing import TYPE_CHECKING, Any

import httpx2
import structlog

from app.core.remote.chunks import RemoteServerError, Usage
from app.core.remote.connection import RequestRefusedError, ServerConnection, run_in_own_loop, run_on_loop
from app.core.remote.dialects import (
    RemoteInfillFormat,
    build_chat_prompt,
    find_infill_format,
    get_request_form,
)
from app.core.remote.exchange import Exchange
from app.core.remote.profile import ServerProfile, probe_server
from app.core.remote.receiver import SampleReceiver
from app.core.remote.server_pages import read_counters
from app.core.remote.target import CHAT_PATH, COMPLETIONS_PATH, RemoteTarget
from decoding.models.errors import ModelError
from decoding.request import (
    Completion,
    OnBatchUpdate,
    OnUpdate,
    Request,
    RequestError,
    Sample,
    ShouldCancel,
    ShouldCancelRequest,
)
from decoding.state.clock import Clock

if TYPE_CHECKING:
    from decoding.config import EngineConfig
    from decoding.models.infilling import InfillFormat
    from decoding.models.loaded import ModelSpec

PROBE_S = 600.0  # a server may load its model when it is asked first
WATCH_S = 0.05  # between looks for updates and for a cancellation
REQUESTS_TOGETHER = 8  # in a run for throughput
UNACCEPTABLE = (httpx2.codes.BAD_REQUEST, httpx2.codes.UNPROCESSABLE_CONTENT)
TokenCounter = Callable[[str], int]
log = structlog.get_logger(__name__)


def load_token_counter(model: str) -> TokenCounter:
    """A function that counts the tokens of a text as this model's tokenizer makes them. Raises ModelError."""
    from decoding.models.loading import load_tokenizer  # noqa: PLC0415 (imports torch)

    tokenizer = load_tokenizer(model)
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


class RemoteEngine:
    """A model behind an OpenAI-compatible server. Draws no tokens itself, so it drafts nothing."""

    def __init__(
        self, target: RemoteTarget, profile: ServerProfile | None = None, count_tokens: TokenCounter | None = None
    ) -> None:
        self._target = target
        self._count_tokens = count_tokens
        self._profile = profile or ServerProfile()
        self._path = COMPLETIONS_PATH if self._profile.has_completions else CHAT_PATH  # of the latest prompt

    @property
    def has_chat_template(self) -> bool:
        """Whether the server takes conversations: the template is its own."""
        return self._profile.chat is not None

    @property
    def infill_format(self) -> InfillFormat | RemoteInfillFormat | None:
        """How the server is asked to fill a gap, None where it does not."""
        return find_infill_format(self._profile.infill)

    @classmethod
    def load(cls, target: RemoteTarget) -> RemoteEngine:
        """An engine whose endpoint has answered, so that its loading is on no task's clock, and whose server's profile
        is known. Raises ModelError."""
        counter = load_token_counter(target.tokenizer) if target.tokenizer else None
        try:
            return cls(target, run_in_own_loop(_probe(target)), counter)
        except TimeoutError:
            late = f"did not answer short prompts within {PROBE_S:g} s"
            raise ModelError(f"{target.base_url} {late}: wait until it has loaded its model") from None
        except (RequestRefusedError, RemoteServerError) as error:
            raise ModelError(str(error)) from None

    def render_chat(
        self, messages: list[dict[str, str]], reply_prefix: str, template_kwargs: Mapping[str, Any] | None = None
    ) -> str:
        """The conversation as the server takes it. Raises RequestError where it takes none."""
        if self._profile.chat is None:
            raise RequestError("prompt_mode is 'chat': this server takes plain prompts only, use completion")
        self._path = CHAT_PATH
        return build_chat_prompt(messages, reply_prefix, self._profile.continuation, template_kwargs)

    def decode(self, tokens: Sequence[int]) -> str:
        """Raises RequestError: the tokens are the server's."""
        raise RequestError("prompt holds token ids: a remote target takes plain prompts, send a text")

    def get_provenance(self) -> Mapping[str, str | int | float | None]:
        """The facts known about the other server."""
        return {
            "target": self._target.model,
            "endpoint": self._target.base_url,
            "device": "remote",
            "timed": "at the client",
            "http_client": f"httpx2 {metadata.version('httpx2')}",
            **({"extra_body": json.dumps(self._target.extra_body)} if self._target.extra_body else {}),
            **({"tokenizer": self._target.tokenizer} if self._target.tokenizer else {}),
            **self._profile.get_dialect(self._path).describe_requests(),
            **self._profile.describe_server(),
        }

    def count_memory(self) -> dict[ModelSpec | EngineConfig, int]:
        """Nothing: its model is the server's."""
        return {}

    def generate(
        self, request: Request, on_update: OnUpdate | None = None, should_cancel: ShouldCancel | None = None
    ) -> Completion:
        """n samples before the deadline, on this side's clock: it starts with this call.

        A server that is too busy to take the request is asked again while there is time. Samples that it did not end
        are cut off at the deadline. One whose stream breaks is an `error` with the text so far; only where nothing at
        all was received does this raise RequestError for what the server refuses, RemoteServerError for its faults.
        """
        return run_in_own_loop(self.generate_on_loop(request, on_update, should_cancel, is_alone=True))

    def generate_many(
        self,
        requests: Iterable[Request],
        on_update: OnBatchUpdate | None = None,
        should_cancel: ShouldCancelRequest | None = None,
    ) -> Iterator[tuple[int, Completion | RequestError]]:
        """(position, outcome) of requests sent at once, REQUESTS_TOGETHER at most; their batch is the server's.

        Nothing is received while the caller handles an outcome.
        """
        loop = asyncio.new_event_loop()
        incoming = enumerate(requests)
        running: dict[asyncio.Task[Completion], int] = {}
        try:
            while True:
                while len(running) < REQUESTS_TOGETHER and (arrival := next(incoming, None)):
                    position, request = arrival
                    told = partial(on_update, position) if on_update else None
                    cancels = partial(should_cancel, position) if should_cancel else None
                    running[loop.create_task(self.generate_on_loop(request, told, cancels))] = position
                if not running:
                    return
                done, _ = run_on_loop(loop, asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED))
                for task in done:
                    try:
                        outcome: Completion | RequestError = task.result()
                    except RequestError as error:
                        outcome = error
                    yield running.pop(task), outcome
        finally:
            for task in running:
                task.cancel()
            if running:
                run_on_loop(loop, asyncio.wait(running))
            loop.close()

    def serve(
        self,
        requests: Iterable[Request | None],
        on_update: OnBatchUpdate | None = None,
        should_cancel: ShouldCancelRequest | None = None,
    ) -> Iterator[tuple[int, Completion | RequestError]]:
        """Raises RequestError: interactive requests are sent one by one."""
        raise RequestError("a remote target serves no batch of interactive requests: send them one by one")

    def calibrate(self) -> None:
        """None: how fast the other machine is cannot be known from here."""

    async def generate_on_loop(
        self,
        request: Request,
        on_update: OnUpdate | None = None,
        should_cancel: ShouldCancel | None = None,
        *,
        is_alone: bool = False,
    ) -> Completion:
        """What `generate` returns, on the caller's event loop, so that many requests are sent together.

        Unless one `is_alone`, the server's counters are about other requests of ours, too.
        """
        if request.prompt_logprobs is not None or request.top_logprobs:
            raise RequestError("logprobs asks for more than the chosen tokens: a remote target has only those, use 0")
        path, _, _ = get_request_form(request.prompt)
        self._path = CHAT_PATH if path == CHAT_PATH else COMPLETIONS_PATH
        if path == COMPLETIONS_PATH and not self._profile.has_completions:
            raise RequestError("prompt_mode is 'completion': this server takes conversations only, use chat")
        async with ServerConnection(self._target) as server:
            before = await read_counters(server) if is_alone and self._profile.facts.has_counters else {}
            clock = Clock(request.budget_s, request.waited_s)
            probed = self._profile.get_dialect(path)
            for profile in (probed, replace(probed, takes_n=False)):
                exchanges = _plan_exchanges(server, profile, request, clock)
                await _receive(exchanges, clock, on_update, should_cancel)
                fault = exchanges[0].fault
                is_refused = isinstance(fault, RequestRefusedError) and fault.status in UNACCEPTABLE
                if len(exchanges) == request.n or not is_refused:
                    break  # else once more: some take n only up to a limit, or not with temperature 0
            after = await read_counters(server) if before else {}
        has_begun = any(exchange.has_begun for exchange in exchanges)
        faults = [exchange.fault for exchange in exchanges if exchange.fault is not None]
        if len(faults) == len(exchanges) and not has_begun:
            raise faults[0]
        for fault in faults:
            log.warning("samples of another server are incomplete", reason=str(fault))
        counters = {name: after.get(name, count) - count for name, count in before.items()}
        completion = _summarize(exchanges, counters, self._count_tokens)
        if completion.waited_s > request.waited_s and not has_begun:
            log.warning("another server was too busy until the deadline", endpoint=server.address)
        self._profile = replace(self._profile, chat=profile) if path == CHAT_PATH else profile
        _announce(exchanges, clock, on_update)
        return completion


async def _probe(target: RemoteTarget) -> ServerProfile:
    async with asyncio.timeout(PROBE_S), ServerConnection(target) as server:
        return await probe_server(server)


def _plan_exchanges(server: ServerConnection, profile: ServerProfile, request: Request, clock: Clock) -> list[Exchange]:
    """The requests that make the samples: one, or one for each sample."""
    path, _, _ = get_request_form(request.prompt)
    if profile.needs_request_per_sample(request.stop, path):
        groups = [[SampleReceiver(request, i, derive_seed(request.seed, i))] for i in range(request.n)]
    else:
        groups = [[SampleReceiver(request, i, request.seed) for i in range(request.n)]]
    return [Exchange(server, profile, request, clock, receivers) for receivers in groups]


def derive_seed(seed: int, index: int) -> int:
    """The seed of a sample with a request of its own: no two samples of a request share one, and neither do requests
    with different seeds below 2**21. Servers take 31 bits."""
    return (seed * 1024 + index) % 2**31


async def _receive(
    exchanges: Sequence[Exchange], clock: Clock, on_update: OnUpdate | None, should_cancel: ShouldCancel | None
) -> None:
    """Lets the exchanges run until all have ended or nobody waits any longer, ends their samples, and hangs up."""
    tasks = [asyncio.ensure_future(exchange.run()) for exchange in exchanges]
    is_cancelled = False
    try:
        while not all(task.done() for task in tasks) and clock.left_s > 0 and not is_cancelled:
            await asyncio.wait(tasks, timeout=min(WATCH_S, clock.left_s))
            _announce(exchanges, clock, on_update)
            is_cancelled = should_cancel is not None and should_cancel()
        for exchange in exchanges:
            exchange.end(is_cancelled=is_cancelled)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


def _announce(exchanges: Sequence[Exchange], clock: Clock, on_update: OnUpdate | None) -> None:
    changed = [receiver for exchange in exchanges for receiver in exchange.receivers if receiver.is_changed]
    if on_update is not None and changed:
        now_s = clock.elapsed_s
        on_update([receiver.build_update(now_s) for receiver in changed])


def _summarize(
    exchanges: Sequence[Exchange], counters: Mapping[str, float], count_tokens: TokenCounter | None
) -> Completion:
    """The samples and times. `counters` is how much the server's counters rose; what the answers say of
    themselves takes precedence, because others may use the server too."""
    samples = [receiver.sample for exchange in exchanges for receiver in exchange.receivers]
    if count_tokens is not None:
        for sample in samples:
            sample.n_counted = count_tokens(sample.text)
    ended_s = max(sample.finished_s or 0.0 for sample in samples)
    # The wait for a server that is too busy is the user's, and not the model's. One that the deadline ended is known
    # only after its samples have ended.
    waited_s = min(ended_s, *(exchange.waited_s for exchange in exchanges))
    wall_s = max(ended_s - waited_s, 0.0)
    prefill_s = min((s.first_token_s - waited_s for s in samples if s.first_token_s is not None), default=wall_s)
    _assign_drafts(exchanges, samples, counters)
    usage = reduce(Usage.fill_unknown, (exchange.usage for exchange in exchanges))
    cached = usage.cached_tokens
    if cached is None and "cached" in counters:
        cached = int(counters["cached"])
    return Completion(
        [*samples], usage.prompt_tokens or 0, [], prefill_s, wall_s, cached_tokens=cached, waited_s=waited_s
    )


def _assign_drafts(exchanges: Sequence[Exchange], samples: Sequence[Sample], counters: Mapping[str, float]) -> None:
    """Records the drafts that the answers report for their samples; else those that the server counted for all."""
    if any(exchange.usage.drafted_tokens for exchange in exchanges):
        for exchange in exchanges:
            if (n_drafted := exchange.usage.drafted_tokens) is not None:
                own = [receiver.sample for receiver in exchange.receivers]
                _record_drafts(own, n_drafted, exchange.usage.accepted_tokens or 0)
    elif counters.get("drafted", 0) > 0:
        _record_drafts(samples, int(counters["drafted"]), int(counters.get("accepted", 0)))


def _record_drafts(samples: Sequence[Sample], n_drafted: int, n_accepted: int) -> None:
    """Counts what was drafted for some samples together with the first of them. A round gives one token more than it
    accepts."""
    n_tokens = sum(sample.n_tokens for sample in samples)
    samples[0].n_drafted, samples[0].n_accepted = n_drafted, min(n_accepted, n_tokens)
    samples[0].n_rounds = max(n_tokens - n_accepted, 1)
