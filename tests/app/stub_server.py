"""An OpenAI-compatible server that behaves as a test says."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

from tests.http_servers import serve

EVENTS = {"Content-Type": "text/event-stream"}
DONE = "data: [DONE]\n\n"
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
LONG_S = 60.0  # a budget that no test uses up


class StubServer:
    """What it was asked, and how it answers: `answer(reply, body)` is called for each POST."""

    def __init__(self, answer: Callable[[Reply, dict[str, Any]], None]) -> None:
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []  # of the same requests
        self.headers: list[Any] = []
        self.hung_up = threading.Event()  # the client closed a connection that was being written to, or waited on
        self.released = threading.Event()  # the test is over: nothing waits any longer
        self.url = ""


class Reply:
    """One answer, written step by step."""

    def __init__(self, server: StubServer, handler: BaseHTTPRequestHandler) -> None:
        self._server, self._handler = server, handler
        self.path, self.headers = handler.path, handler.headers

    def start(self, status: int = 200, headers: dict[str, str] = EVENTS) -> Reply:
        """Sends status and headers; returns itself."""
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()
        return self

    def write(self, *blocks: str | bytes) -> None:
        """Sends each block by itself."""
        for block in blocks:
            self._handler.wfile.write(block.encode() if isinstance(block, str) else block)
            self._handler.wfile.flush()

    def refuse(self, message: str, status: int = 400) -> None:
        """A refusal as servers send it."""
        self.start(status, {"Content-Type": "application/json"}).write(json.dumps({"error": {"message": message}}))

    def write_forever(self, block: str | bytes) -> None:
        """Sends a block again and again until the client hangs up."""
        while not self._server.released.is_set():
            self.write(block)

    def wait_for_hang_up(self) -> None:
        """Sends nothing until the client hangs up or the test is over."""
        self._handler.connection.settimeout(0.05)
        while not self._server.released.is_set():
            with contextlib.suppress(TimeoutError):
                if not self._handler.connection.recv(1):
                    raise ConnectionResetError


@contextlib.contextmanager
def serve_stub(
    answer: Callable[[Reply, dict[str, Any]], None],
    paths: Collection[str] = (COMPLETIONS,),
    pages: Mapping[str, Any] = MappingProxyType({}),
    port: int = 0,
) -> Iterator[StubServer]:
    """The stub on `port`, by default one of its own: `paths` take requests, `pages` are texts, JSON, or functions that
    make either."""
    stub = StubServer(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            stub.headers.append(self.headers)
            if self.path not in pages:
                self.send_error(404)
                return
            page = pages[self.path]() if callable(pages[self.path]) else pages[self.path]
            Reply(stub, self).start(200, {}).write(page if isinstance(page, str) else json.dumps(page))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path not in paths:
                self.send_error(404)
                return
            stub.bodies.append(body)
            stub.paths.append(self.path)
            stub.headers.append(self.headers)
            try:
                stub.answer(Reply(stub, self), body)
            except ConnectionError:
                stub.hung_up.set()
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    http.daemon_threads = True
    stub.url = f"http://127.0.0.1:{http.server_port}/v1"
    with serve(http):
        try:
            yield stub
        finally:
            stub.released.set()


def event(*choices: Any, **fields: Any) -> str:
    """An event with these choices."""
    return "data: " + json.dumps({"id": "c", "object": "text_completion", "choices": list(choices), **fields}) + "\n\n"


def choice(text: Any, reason: Any = None, index: Any = 0, logprobs: Any = None) -> dict[str, Any]:
    """A choice of an event."""
    return {"index": index, "text": text, "finish_reason": reason, "logprobs": logprobs}


def tokens(*texts: str, logprob: float = -0.5) -> dict[str, Any]:
    """The log-probabilities of tokens."""
    return {"tokens": list(texts), "token_logprobs": [logprob] * len(texts)}
