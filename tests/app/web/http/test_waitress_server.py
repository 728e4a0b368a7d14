"""The embedded form's server: clients that send or read slowly are closed, and everybody else is served meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import re
import socket
import threading

import pytest
from flask import Flask, Response

from app.site.factory import create_app
from app.web.http import waitress_server
from app.web.http.responses import send_download
from app.web.http.waitress_server import WaitressServer
from tests.integration.waiting import wait_for

HALF = b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\n"
BODY = (
    b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
)


CHUNK = b"x" * 10_000
ENDLESS, LARGE = (f"GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for name in ("endless", "large"))
LARGE_BYTES = 20_000_000


@pytest.fixture
def app(ctx):
    """The service with a download without end, and a whole response of 20 MB."""
    app = create_app(ctx)
    app.add_url_rule("/endless", view_func=lambda: send_download(itertools.repeat(CHUNK), "text/csv", "endless.csv"))
    app.add_url_rule("/large", "large", lambda: Response(b"x" * LARGE_BYTES, content_type="image/png"))
    return app


@pytest.fixture
def server(app, monkeypatch):
    monkeypatch.setattr(waitress_server, "WEB_THREADS", 16)
    found = WaitressServer(app, "127.0.0.1", 0)
    found.adj.asyncore_loop_timeout = 0.02  # it notices only then that it was closed, by default after a second

    def run() -> None:
        with contextlib.suppress(OSError):  # waitress knows no other end than a closed socket
            found.run()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield found
    found.close()
    thread.join(10)


def connect(server, sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.effective_port))
    client.sendall(sent)
    return client


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed the connection, which it never answered."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def expire(server) -> None:
    """Makes a connection without a whole request expire at once."""
    server.adj.channel_timeout = server.adj.cleanup_interval = 0.1


def assert_answers(server) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.effective_port, timeout=120)
    client.request("GET", "/api/v1/health/live")
    assert client.getresponse().status == 200
    client.close()


def connect_without_reading(server, sent: bytes) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(120)
    client.connect(("127.0.0.1", int(server.effective_port)))
    client.sendall(sent)
    return client


def test_half_sent_requests_keep_nobody_out_and_are_closed(server):
    with contextlib.ExitStack() as open_sockets:
        slow = [open_sockets.enter_context(connect(server, HALF)) for _ in range(300)]
        wait_for(lambda: len(server.active_channels) == len(slow))
        assert_answers(server)
        expire(server)
        wait_for(lambda: all(map(is_closed, slow)))


def test_a_body_that_trickles_in_is_closed_however_often_a_byte_comes(server, monkeypatch):
    monkeypatch.setattr(waitress_server, "LEAST_BYTES_PER_S", 1000)
    with connect(server, BODY) as slow:
        wait_for(lambda: server.active_channels)
        expire(server)

        def trickle() -> bool:
            with contextlib.suppress(ConnectionError, BlockingIOError):
                slow.send(b" ")
            return is_closed(slow)

        wait_for(trickle)


def test_a_body_that_comes_at_a_fair_rate_is_taken(server):
    body = b'{"target": 1}'.ljust(100_000)
    with connect(server, BODY) as client:
        client.sendall(body)
        client.settimeout(30)
        assert client.recv(12) == b"HTTP/1.1 422"


def test_downloads_that_nobody_takes_keep_nobody_out_and_are_closed(server, ctx, monkeypatch):
    with contextlib.ExitStack() as open_sockets:
        slow = [open_sockets.enter_context(connect_without_reading(server, ENDLESS)) for _ in range(40)]
        heads = [client.recv(12) for client in slow]
        assert heads.count(b"HTTP/1.1 200") == ctx.downloads.share
        assert heads.count(b"HTTP/1.1 503") == len(slow) - ctx.downloads.share
        assert b"Retry-After" in slow[heads.index(b"HTTP/1.1 503")].recv(1000)
        assert_answers(server)
        pending = [channel.total_outbufs_len for channel in list(server.active_channels.values())]
        assert max(pending) <= waitress_server.PENDING_BYTES + 2 * len(CHUNK)
        monkeypatch.setattr(waitress_server, "STALLED_S", 0.2)
        expire(server)
        wait_for(lambda: not server.active_channels)
        wait_for(lambda: ctx.downloads.acquire("another"))
        for _ in range(ctx.downloads.share):
            wait_for(lambda: ctx.downloads.acquire("local"))


def test_a_download_of_which_a_byte_is_taken_now_and_then_is_closed(server, ctx, monkeypatch):
    with connect_without_reading(server, ENDLESS) as slow:
        assert slow.recv(12) == b"HTTP/1.1 200"
        monkeypatch.setattr(waitress_server, "STALLED_S", 0.5)
        monkeypatch.setattr(waitress_server, "LEAST_BYTES_TAKEN_PER_S", 10**9)
        expire(server)

        def trickle() -> bool:
            with contextlib.suppress(ConnectionError):
                slow.recv(1000)
            return not server.active_channels

        wait_for(trickle)


def test_requests_behind_a_response_that_nobody_takes_hold_no_threads(server):
    with contextlib.ExitStack() as open_sockets:
        slow = [open_sockets.enter_context(connect_without_reading(server, LARGE + LARGE)) for _ in range(20)]
        assert {client.recv(12) for client in slow} == {b"HTTP/1.1 200"}
        assert_answers(server)


def test_a_response_that_is_taken_slowly_arrives_whole(server, monkeypatch):
    monkeypatch.setattr(waitress_server, "STALLED_S", 3)
    expire(server)
    client = http.client.HTTPConnection("127.0.0.1", server.effective_port, timeout=30)
    client.request("GET", "/large")
    answer = client.getresponse()
    parts = iter(lambda: answer.read(65536), b"")
    assert sum(map(len, parts)) == LARGE_BYTES
    client.close()


def test_a_request_without_a_body_is_answered_whatever_it_expects(server):
    head = b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\r\n"
    with connect(server, head) as client:
        client.settimeout(30)
        assert client.recv(12) == b"HTTP/1.1 200"


def test_a_body_that_waits_to_be_asked_for_is_asked_for(server):
    head = BODY.replace(b"100000", b"13").replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    with connect(server, head) as client:
        client.settimeout(30)
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b'{"target": 1}')
        assert client.recv(12) == b"HTTP/1.1 422"


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        ("1.1", "Content-Length: 4\r\nTransfer-Encoding: chunked"),
        ("1.1", "Transfer-Encoding: chunked\r\ncontent-length: 4"),
        ("1.1", "Transfer-Encoding: chunked, chunked"),
        ("1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        ("1.1", "Transfer-Encoding:\r\n chunked"),
        ("1.0", "Transfer-Encoding: chunked"),
        ("1.0", "Transfer-Encoding: chunked\r\nContent-Length: 4"),
        ("1.1", "Content-Length: 4\r\nContent-Length: 5"),
    ],
)
def test_a_request_with_two_possible_ends_is_refused(server, version, headers):
    request = f"POST /login HTTP/{version}\r\nHost: localhost\r\n{headers}\r\n\r\n"
    with connect(server, request.encode() + b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n") as client:
        client.settimeout(30)
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert re.findall(rb"HTTP/1\.\d (\d+)", answer) == [b"400"]


def test_a_body_in_chunks_is_taken(server):
    head = BODY.replace(b"Content-Length: 100000", b"Transfer-Encoding: chunked")
    with connect(server, head + b'd\r\n{"target": 1}\r\n0\r\n\r\n') as client:
        client.settimeout(30)
        assert client.recv(12) == b"HTTP/1.1 422"


def test_a_thread_that_still_answers_after_the_end_writes_into_no_other_file(tmp_path):
    """It wakes the loop by a byte in a pipe, whose number a database may have taken by then."""
    server = WaitressServer(Flask("pages"), "127.0.0.1", 0)
    server.close()
    files = [(tmp_path / str(number)).open("wb") for number in range(8)]
    server.pull_trigger()
    for file in files:
        file.close()
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [0] * 8
