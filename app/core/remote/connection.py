"""Requests to an OpenAI-compatible server: streamed, bounded in bytes, and hung up when they are left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
import time
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypeVar

import httpx2

from app.core.errors import BadInputError
from app.core.remote.chunks import Chunk, RemoteServerError, ServerUnreachableError, find_message, parse_chunk
from app.core.remote.target import (
    HEADERS_VARIABLE,
    INFILL_PATH,
    KEY_VARIABLE,
    RemoteTarget,
    list_secrets,
    load_secret_headers,
    mask_secrets,
    parse_target,
)
from decoding.request import RequestError

T = TypeVar("T")
DONE = "[DONE]"
_EVENT_END = re.compile(rb"\r?\n\r?\n")
CONNECT_S = 10.0
BUSY_LIMIT_S = 120.0  # without a budget
BUSY = (httpx2.codes.TOO_MANY_REQUESTS, httpx2.codes.SERVICE_UNAVAILABLE)
USUAL_PAUSE_S = 1.0  # for a busy server that does not say how long
SHORTEST_PAUSE_S = 0.1
MAX_ERROR_BYTES = 64 * 1024
MAX_PAGE_BYTES = 4 * 1024 * 1024  # of what a server tells about itself
PAGE_S = 5.0
REJECTED_KEY = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN)


class RequestRefusedError(RequestError):
    """The server refuses the request as it is, with this HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ServerBusyError(RemoteServerError):
    """The server is too busy to take the request; it may be asked again after `asked_s` seconds."""

    def __init__(self, status: int, asked_s: float) -> None:
        super().__init__(f"is too busy: it answers {status}, and may be asked again in {asked_s:g} s")
        self.asked_s = asked_s


@dataclass(slots=True)
class BusyWait:
    """How long a request has waited for a busy server, and how long it may (None: until it is cancelled)."""

    limit_s: float | None = BUSY_LIMIT_S
    waited_s: float = 0.0

    async def pause(self, asked_s: float, started: float) -> bool:
        """Sleeps as long as the server asks; False at once if that is beyond the limit."""
        if self.limit_s is not None and time.perf_counter() - started + asked_s > self.limit_s:
            return False
        try:
            await asyncio.sleep(asked_s)
        finally:
            self.waited_s = time.perf_counter() - started
        return True


class ServerConnection:
    """The connections of one engine call to its server; an asynchronous context manager.

    Follows no redirect: only the address that was named, and allowed, gets the prompts and the key. Takes no compressed
    answer, because a few bytes of it may become many.
    """

    def __init__(self, target: RemoteTarget) -> None:
        self._target = target
        self._secrets = list_secrets()
        self._http = httpx2.AsyncClient(
            headers={**load_secret_headers(target.base_url), "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            follow_redirects=False,
            verify=_load_certificates(),
        )

    @property
    def address(self) -> str:
        """The server, as the target names it."""
        return self._target.base_url

    @property
    def root(self) -> str:
        """The address of what the server offers beside OpenAI's endpoints."""
        return self.address.removesuffix("/v1")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def stream(
        self, body: dict[str, Any], max_event_bytes: int, busy: BusyWait, path: str
    ) -> AsyncGenerator[Chunk]:
        """The chunks of a streamed answer. A busy server is asked again until it accepts the request.

        Close it (`contextlib.aclosing`) to hang up. Raises RequestRefusedError, RemoteServerError.
        """
        started = time.perf_counter()
        while True:
            try:
                with self._explain_faults():
                    async with contextlib.aclosing(self._stream_once(body, max_event_bytes, path)) as chunks:
                        async for chunk in chunks:
                            yield chunk
                return
            except ServerBusyError as error:
                if not await busy.pause(error.asked_s, started):
                    error.args = (f"{self.address} {error}, after {busy.waited_s:.0f} s of waiting",)
                    raise

    async def fetch_page(self, url: str, body: dict[str, Any] | None = None) -> tuple[str, str]:
        """(text, `Server` header) of a page, from POST if there is a `body`; no text where it has no such page.

        The text may hold secrets: pass to `redact` what is told of it. Raises RemoteServerError where nothing answers
        in time, RequestRefusedError for a rejected key.
        """
        method = "GET" if body is None else "POST"
        with self._explain_faults():
            async with asyncio.timeout(PAGE_S + CONNECT_S), self._http.stream(method, url, json=body) as response:
                self._require_accepted_key(response.status_code)
                is_page = response.status_code == httpx2.codes.OK and not _is_compressed(response)
                text = await _read_text(response, MAX_PAGE_BYTES) if is_page else ""
                return text, self.redact(response.headers.get("Server", ""))

    async def _stream_once(self, body: dict[str, Any], max_event_bytes: int, path: str) -> AsyncGenerator[Chunk]:
        asked = {"model": self._target.model, **self._target.extra_body, **body, "stream": True}
        url = self.address + path if path != INFILL_PATH else self.root + path
        async with self._http.stream("POST", url, json=asked) as response:
            await self._require_stream(response)
            rest = bytearray()
            async with contextlib.aclosing(response.aiter_raw()) as blocks:
                async for block in blocks:
                    for data in take_events(rest, block):
                        if data == DONE:
                            return
                        yield parse_chunk(data)
                    if len(rest) > max_event_bytes:
                        raise RemoteServerError(f"sends an event of more than {max_event_bytes} bytes")

    @contextlib.contextmanager
    def _explain_faults(self) -> Iterator[None]:
        """Turns what kept the server from answering into one sentence, with what to do."""
        try:
            yield
        except ServerBusyError:
            raise
        except RemoteServerError as error:
            raise RemoteServerError(self.redact(f"{self.address} {error}")) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL) as error:
            remedy = "start the server, or correct the address"
            if "SSL" in str(error) or "CERTIFICATE" in str(error):
                remedy = "check its certificate, or SSL_CERT_FILE"
            reason = f"{str(error) or type(error).__name__}; {remedy}"
            raise ServerUnreachableError(self.redact(f"{self.address} cannot be reached: {reason}")) from None
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise RemoteServerError(self.redact(f"{self.address} broke the connection off: {reason}")) from None
        except TimeoutError:
            raise RemoteServerError(
                f"{self.address} did not answer within {PAGE_S + CONNECT_S:g} s: wait until it has loaded its model"
            ) from None

    async def _require_stream(self, response: httpx2.Response) -> None:
        """Raises RequestRefusedError or RemoteServerError for a status other than 200, and for JSON in place of a
        stream."""
        status = response.status_code
        if status in BUSY:
            raise ServerBusyError(status, parse_retry_after(response.headers.get("Retry-After", "")))
        if response.has_redirect_location:
            location = response.headers["Location"][:200]
            raise self._make_refusal(f"redirects to {location}: name that address as the target", status)
        self._require_accepted_key(status)
        if httpx2.codes.is_client_error(status):
            raise self._make_refusal(f"refuses: {await _read_message(response)}", status)
        if status != httpx2.codes.OK:
            raise RemoteServerError(f"answers {status}: {await _read_message(response)}")
        if _is_compressed(response):
            raise RemoteServerError("compresses its answer, which was not asked for")
        if response.headers.get("Content-Type", "").startswith("application/json"):
            raise RemoteServerError(f"answers without streaming: {await _read_message(response)}")

    def _require_accepted_key(self, status: int) -> None:
        if status in REJECTED_KEY:
            raise self._make_refusal(f"rejected the API key: set {KEY_VARIABLE}, or {HEADERS_VARIABLE}", status)

    def _make_refusal(self, sentence: str, status: int) -> RequestRefusedError:
        return RequestRefusedError(self.redact(f"{self.address} {sentence}"), status)

    def redact(self, text: str) -> str:
        """The text with *** for every secret."""
        return mask_secrets(text, self._secrets)


@cache
def _load_certificates() -> ssl.SSLContext:
    """Once, because it takes longer than a short answer."""
    return httpx2.create_ssl_context()


def take_events(rest: bytearray, block: bytes) -> list[str]:
    """The data of the server-sent events that `block` completes; `rest` keeps what is not complete yet."""
    rest += block
    if not _EVENT_END.search(rest, max(len(rest) - len(block) - 3, 0)):  # an end may lie across two blocks
        return []
    *events, end = _EVENT_END.split(bytes(rest))
    rest[:] = end
    lines = ([line for line in event.splitlines() if line.startswith(b"data:")] for event in events)
    found = (b"\n".join(line.removeprefix(b"data:").strip() for line in each) for each in lines)
    return [data.decode("utf-8", "replace") for data in found if data]


def _is_compressed(response: httpx2.Response) -> bool:
    return response.headers.get("Content-Encoding", "identity").lower() != "identity"


def parse_retry_after(header: str) -> float:
    """The seconds that a Retry-After header asks for; USUAL_PAUSE_S without a number."""
    is_number = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", header.strip())
    return max(float(header), SHORTEST_PAUSE_S) if is_number else USUAL_PAUSE_S


async def _read_message(response: httpx2.Response) -> str:
    """The sentence in an error's body, or the reason of its status, from the body's first bytes."""
    if _is_compressed(response):
        return response.reason_phrase
    document: Any = await _read_text(response, MAX_ERROR_BYTES)
    if document.lstrip().startswith("<"):  # a page, for people
        return response.reason_phrase
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(document)
    return find_message(document) or response.reason_phrase


async def _read_text(response: httpx2.Response, max_bytes: int) -> str:
    """The first bytes of a body as text."""
    body = bytearray()
    async with contextlib.aclosing(response.aiter_raw()) as blocks:
        async for block in blocks:
            body += block
            if len(body) > max_bytes:
                break
    return bytes(body[:max_bytes]).decode("utf-8", "replace")


def require_answering(target: str) -> None:
    """Raises BadInputError unless something answers at the endpoint of an `openai:` target, takes the key, and has
    no models below /v1 instead. Ask only for an allowed target: this sends a request."""
    try:
        run_in_own_loop(_require_answer(parse_target(target)))
    except (RemoteServerError, RequestError) as error:
        raise BadInputError(f"target: {error}", "target") from None


async def _require_answer(target: RemoteTarget) -> None:
    async with ServerConnection(target) as server:
        models, _ = await server.fetch_page(f"{server.address}/models")
        if models or target.base_url.endswith("/v1"):  # some have no such page
            return
        usual = f"{server.address}/v1"
        models, _ = await server.fetch_page(f"{usual}/models")
        if models:
            raise RemoteServerError(f"{server.address} has no models, {usual} has: use that address")


def run_in_own_loop(work: Coroutine[None, None, T]) -> T:
    """The result of a coroutine, in an event loop of its own.

    asyncio.run would wait for a name server that does not answer, beyond the deadline.
    """
    loop = asyncio.new_event_loop()
    try:
        return run_on_loop(loop, work)
    finally:
        loop.close()


def run_on_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[None, None, T]) -> T:
    """The result of a coroutine on a loop that does not run: in another thread where this one runs a loop already."""
    if asyncio._get_running_loop() is None:
        return loop.run_until_complete(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(loop.run_until_complete, work).result()
