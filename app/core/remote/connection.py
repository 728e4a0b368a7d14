"""Requests to an OpenAI-compatible server: streamed, bounded in bytes, and hung up when they are left."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import email.utils
import json
import re
import ssl
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import httpx2

from app.core.remote.chunks import (
    DONE,
    Chunk,
    EventReader,
    RemoteServerError,
    ServerUnreachableError,
    find_message,
    parse_chunk,
)
from app.core.remote.target import (
    HEADERS_VARIABLE,
    INFILL_PATH,
    KEY_VARIABLE,
    RemoteTarget,
    list_secrets,
    load_secret_headers,
    mask_secrets,
)
from decoding.request import RequestError

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
                async with contextlib.aclosing(self._stream_once(body, max_event_bytes, path)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except ServerBusyError as error:
                if not await busy.pause(error.asked_s, started):
                    error.args = (f"{self.address} {error}, after {busy.waited_s:.0f} s of waiting",)
                    raise
            except RemoteServerError as error:
                raise RemoteServerError(self.redact(f"{self.address} {error}")) from None
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise self._make_error(error) from None

    async def fetch_page(self, url: str, body: dict[str, Any] | None = None) -> tuple[str, str]:
        """(text, `Server` header) of a page, from POST if there is a `body`; no text where it has no such page.

        The text may hold secrets: pass to `redact` what is told of it. Raises RemoteServerError where nothing answers
        in time, RequestRefusedError for a rejected key.
        """
        try:
            async with (
                asyncio.timeout(PAGE_S + CONNECT_S),
                self._http.stream("GET" if body is None else "POST", url, json=body) as response,
            ):
                self._require_accepted_key(response.status_code)
                is_page = response.status_code == httpx2.codes.OK and not _is_compressed(response)
                text = await _read_text(response, MAX_PAGE_BYTES) if is_page else ""
                return text, self.redact(response.headers.get("Server", ""))
        except TimeoutError:
            waited = f"{PAGE_S + CONNECT_S:g} s"
            raise RemoteServerError(
                f"{self.address} did not answer within {waited}: wait until it has loaded its model"
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._make_error(error) from None

    async def _stream_once(self, body: dict[str, Any], max_event_bytes: int, path: str) -> AsyncGenerator[Chunk]:
        asked = {"model": self._target.model, **self._target.extra_body, **body, "stream": True}
        url = self.address + path if path != INFILL_PATH else self.root + path
        async with self._http.stream("POST", url, json=asked) as response:
            await self._require_stream(response)
            events = EventReader(max_event_bytes)
            async with contextlib.aclosing(response.aiter_raw()) as blocks:
                async for block in blocks:
                    for data in events.feed(block):
                        if data.strip() == DONE:
                            return
                        yield parse_chunk(data)

    def _make_error(self, error: Exception) -> RemoteServerError:
        """The error for what kept the server from answering: one sentence, with what to do."""
        reason = str(error) or type(error).__name__
        has_connected = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.InvalidURL)
        fault = "broke the connection off" if has_connected else "cannot be reached"
        remedy = "" if has_connected else "; start the server, or correct the address"
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            remedy = "; name a host of its certificate, or add its authority to the file that SSL_CERT_FILE names"
        elif "SSL" in reason:
            remedy = "; a server without TLS has an address that begins with http://"
        kind = RemoteServerError if has_connected else ServerUnreachableError
        return kind(self.redact(f"{self.address} {fault}: {reason}{remedy}"))

    async def _require_stream(self, response: httpx2.Response) -> None:
        """Raises RequestRefusedError or RemoteServerError for a status other than 200, a compressed answer, and JSON in
        place of a stream."""
        status = response.status_code
        if status in BUSY:
            raise ServerBusyError(status, parse_retry_after(response.headers.get("Retry-After")))
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


def parse_retry_after(header: str | None) -> float:
    """The seconds that a Retry-After header asks for, as a number or as a date; USUAL_PAUSE_S without one that can be
    read, never less than SHORTEST_PAUSE_S."""
    asked_s = USUAL_PAUSE_S
    if header is not None and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", header.strip()):
        asked_s = float(header)
    elif header is not None:
        with contextlib.suppress(ValueError, OverflowError):
            at = email.utils.parsedate_to_datetime(header)
            asked_s = (at.replace(tzinfo=at.tzinfo or dt.UTC) - dt.datetime.now(dt.UTC)).total_seconds()
    return max(asked_s, SHORTEST_PAUSE_S)


def _is_compressed(response: httpx2.Response) -> bool:
    return response.headers.get("Content-Encoding", "identity").lower() != "identity"


async def _read_message(response: httpx2.Response) -> str:
    """The sentence in an error's body, or the reason of its status, from the body's first bytes."""
    if _is_compressed(response):
        return response.reason_phrase
    text = await _read_text(response, MAX_ERROR_BYTES)
    with contextlib.suppress(ValueError, RecursionError):
        return find_message(json.loads(text)) or response.reason_phrase
    if text.lstrip().startswith("<"):  # a page, for people
        return response.reason_phrase
    return find_message(text) or response.reason_phrase


async def _read_text(response: httpx2.Response, max_bytes: int) -> str:
    """The first bytes of a body as text."""
    body = bytearray()
    async with contextlib.aclosing(response.aiter_raw()) as blocks:
        async for block in blocks:
            body += block
            if len(body) > max_bytes:
                break
    return bytes(body[:max_bytes]).decode("utf-8", "replace")
