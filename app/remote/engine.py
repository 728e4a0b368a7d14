"""Another server behind the engine protocol: its samples are streamed, timed here, and cut off at the deadline."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

import openai

from app.remote.target import KEY, RemoteTarget
from decoding.models.errors import ModelError
from decoding.request import (
    Completion,
    FinishReason,
    OnUpdate,
    OnUpdateOf,
    Request,
    RequestError,
    Sample,
    ShouldCancel,
    ShouldCancelOf,
    Update,
)

if TYPE_CHECKING:
    from openai.types import Completion as Chunk
    from openai.types import CompletionUsage

    from decoding.config import EngineConfig
    from decoding.models.loaded import ModelSpec

CONNECT_S = 10.0
WATCH_S = 0.2
LONGEST_S = 600.0
BUSY = (429, 503)
TRIES = 5
LONGEST_WAIT_S = 30.0


@dataclass(slots=True)
class RemoteSample(Sample):
    """A sample as far as it was received: without token ids, tokens are counted by their log-probabilities, or else by
    the pieces in which the text came, which are no more than its tokens."""

    n_pieces: int = 0

    @property
    def n_tokens(self) -> int:
        """Tokens received."""
        return max(len(self.logprobs), self.n_pieces)


class RemoteEngine:
    """A model behind an OpenAI-compatible /v1/completions. Draws no tokens itself, so it drafts nothing."""

    has_chat_template = False  # what /v1/completions takes is plain text
    fim_tokens = None

    def __init__(self, target: RemoteTarget) -> None:
        self._target = target
        self._key = os.environ.get(KEY, "")
        # Retries would hide waiting inside a sample's time.
        self._client = openai.OpenAI(base_url=target.base_url, api_key=self._key or "none", max_retries=0)

    @classmethod
    def load(cls, target: RemoteTarget) -> RemoteEngine:
        """An engine whose endpoint has answered once, so that its loading is on no task's clock. Raises ModelError."""
        engine = cls(target)
        try:
            engine._client.completions.create(
                model=target.model,
                prompt="def add(a, b):\n",
                max_tokens=1,
                timeout=openai.Timeout(LONGEST_S, connect=CONNECT_S),
            )
        except openai.APIConnectionError as error:
            raise ModelError(f"{target.base_url} cannot be reached: {error.__cause__ or error}") from None
        except (openai.AuthenticationError, openai.PermissionDeniedError):
            raise ModelError(f"{target.base_url} rejected the API key: set {KEY}") from None
        except openai.APIStatusError as error:
            raise ModelError(str(engine._refusal(error))) from None
        return engine

    def render_chat(self, messages: list[dict[str, str]], reply_prefix: str) -> str:
        """Raises RequestError: the template is the server's."""
        raise RequestError("prompt_mode is 'chat': a remote target takes plain prompts, use completion")

    def decode(self, tokens: Sequence[int]) -> str:
        """Raises RequestError: the tokens are the server's."""
        raise RequestError("prompt holds token ids: a remote target takes plain prompts, send a text")

    def provenance(self) -> Mapping[str, str | int | float | None]:
        """The facts known about the other server."""
        return {
            "target": self._target.model,
            "endpoint": self._target.base_url,
            "device": "remote",
            "timed": "at the client",
            "openai_client": metadata.version("openai"),
        }

    def serving_costs(self) -> Mapping[str, float]:
        """Nothing: how requests share a batch there is the server's to decide."""
        return {}

    def memory(self) -> dict[ModelSpec | EngineConfig, int]:
        """Nothing: its model is the server's."""
        return {}

    def generate(
        self, request: Request, on_update: OnUpdate | None = None, should_cancel: ShouldCancel | None = None
    ) -> Completion:
        """n samples before the deadline, on this side's clock: it starts when the request is sent.

        A server that is too busy to take the request is asked again later, outside the clock. Raises RequestError for
        what the server refuses, openai.APIError for its faults.
        """
        if request.prompt_logprobs is not None or request.top_logprobs:
            raise RequestError("logprobs asks for more than the chosen tokens: a remote target has only those, use 0")
        samples = [RemoteSample(index=i, seed=request.seed) for i in range(request.n)]
        for attempt in range(TRIES):
            started = time.monotonic() - request.waited_s
            try:
                usage = self._listen(request, samples, started, on_update, should_cancel)
                break
            except openai.APIStatusError as error:
                if error.status_code not in BUSY or attempt == TRIES - 1:
                    raise self._refusal(error) from None
                if not _wait(error, should_cancel):
                    usage = None
                    break
        ended_s = time.monotonic() - started
        cancelled = should_cancel is not None and should_cancel()
        cut = "cancelled" if cancelled else "deadline" if _is_past_deadline(request, ended_s) else "error"
        for sample in samples:
            if sample.finish_reason is None:
                sample.finish_reason, sample.finished_s = cut, ended_s  # type: ignore[assignment]
        waited_s, wall_s = request.waited_s, ended_s - request.waited_s
        first = min((s.first_token_s - waited_s for s in samples if s.first_token_s is not None), default=wall_s)
        n_prompt_tokens, details = (usage.prompt_tokens, usage.prompt_tokens_details) if usage else (0, None)
        cached_tokens = details.cached_tokens if details else None
        return Completion(
            list[Sample](samples), n_prompt_tokens, [], first, wall_s, cached_tokens=cached_tokens, waited_s=waited_s
        )

    def generate_many(
        self,
        requests: Iterable[Request],
        on_update: OnUpdateOf | None = None,
        should_cancel: ShouldCancelOf | None = None,
    ) -> Iterator[tuple[int, Completion | RequestError]]:
        """Raises RequestError: how requests share a batch is the server's to decide."""
        raise RequestError("throughput is true: a remote target decodes one task at a time, leave it out")

    def serve(
        self,
        requests: Iterable[Request | None],
        on_update: OnUpdateOf | None = None,
        should_cancel: ShouldCancelOf | None = None,
    ) -> Iterator[tuple[int, Completion | RequestError]]:
        """Raises RequestError, as generate_many."""
        raise RequestError("a remote target decodes one request at a time")

    def calibrate(self) -> None:
        """None: how fast the other machine is cannot be known from here."""

    def _listen(
        self,
        request: Request,
        samples: Sequence[RemoteSample],
        started: float,
        on_update: OnUpdate | None,
        should_cancel: ShouldCancel | None,
    ) -> CompletionUsage | None:
        """Fills the samples until all have ended or nobody waits any longer. Returns the server's count if it sends
        one."""
        usage: CompletionUsage | None = None
        for heard, chunk in self._chunks(request, started, should_cancel):
            if chunk.usage is not None:
                usage = chunk.usage
            updates = [_append(samples[c.index], c, heard) for c in chunk.choices if c.index < len(samples)]
            if on_update is not None and updates:
                on_update(updates)
        return usage

    def _chunks(
        self, request: Request, started: float, should_cancel: ShouldCancel | None
    ) -> Iterator[tuple[float, Chunk]]:
        """(seconds since the start, chunk). A thread of its own listens, since a silent server must not hold us up."""
        heard: queue.Queue[tuple[float, Chunk | Exception | None]] = queue.Queue()
        left = threading.Event()
        reader = threading.Thread(target=self._read, args=(request, started, heard, left), daemon=True)
        reader.start()
        try:
            while not _is_past_deadline(request, now := time.monotonic() - started):
                if should_cancel is not None and should_cancel():
                    return
                left_s = WATCH_S if request.budget_s is None else min(WATCH_S, request.budget_s - now)
                try:
                    at, item = heard.get(timeout=max(left_s, 0.001))
                except queue.Empty:
                    continue
                if item is None or _is_past_deadline(request, at):
                    return
                if isinstance(item, Exception):
                    raise item
                yield at, item
        finally:
            left.set()

    def _read(
        self,
        request: Request,
        started: float,
        heard: queue.Queue[tuple[float, Chunk | Exception | None]],
        left: threading.Event,
    ) -> None:
        last: Exception | None = None
        try:
            with self._client.completions.create(
                model=self._target.model,
                prompt=request.prompt if isinstance(request.prompt, str) else list(request.prompt),
                n=request.n,
                max_tokens=request.max_new_tokens,
                temperature=request.sampling.temperature,
                top_p=request.sampling.top_p,
                seed=request.seed,
                stop=list(request.stop) or None,
                logprobs=1,
                stream=True,
                stream_options={"include_usage": True},
                timeout=openai.Timeout((request.budget_s or LONGEST_S) + CONNECT_S, connect=CONNECT_S),
            ) as stream:
                threading.Thread(target=_close_when, args=(left, stream), daemon=True).start()
                for chunk in stream:
                    heard.put((time.monotonic() - started, chunk))
        except Exception as error:  # the other thread interprets it
            last = error
        finally:
            left.set()
            heard.put((time.monotonic() - started, last))

    def _refusal(self, error: openai.APIStatusError) -> Exception:
        """The server's answer as ours: a faulty request is not worth a second attempt."""
        if error.status_code >= 500 or error.status_code in BUSY:
            return error
        said = str(error.body.get("message") if isinstance(error.body, dict) else error.message)
        return RequestError(f"{self._target.base_url} refuses: {said.replace(self._key, '***') if self._key else said}")


def _close_when(left: threading.Event, stream: Any) -> None:
    """Hangs up, which ends the work on the other side and the reader on ours."""
    left.wait()
    stream.close()


def _append(sample: RemoteSample, piece: Any, heard: float) -> Update:
    if piece.text:
        sample.text += piece.text
        sample.n_pieces += 1
        sample.first_token_s = sample.first_token_s if sample.first_token_s is not None else heard
    if piece.logprobs is not None:
        sample.logprobs.extend(x for x in piece.logprobs.token_logprobs or [] if x is not None)
    if piece.finish_reason is not None:
        reason: FinishReason = "stop" if piece.finish_reason == "stop" else "length"
        sample.finish_reason, sample.finished_s = reason, heard
    return Update(sample.index, sample.text, sample.n_tokens, (), sample.mean_logprob, heard, sample.finish_reason)


def _is_past_deadline(request: Request, seconds: float) -> bool:
    return request.budget_s is not None and seconds >= request.budget_s


def _wait(error: openai.APIStatusError, should_cancel: ShouldCancel | None) -> bool:
    """Waits as long as the server asks; False if cancelled meanwhile."""
    asked = error.response.headers.get("Retry-After", "1")
    until = time.monotonic() + min(float(asked) if asked.replace(".", "", 1).isdecimal() else 1.0, LONGEST_WAIT_S)
    while time.monotonic() < until:
        if should_cancel is not None and should_cancel():
            return False
        time.sleep(min(WATCH_S, max(until - time.monotonic(), 0)))
    return True
