"""The embedded form's server: clients that send slowly are closed, and everybody else is served meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading

import pytest

from app.factory import create_app
from app.http import waitress_server
from app.http.waitress_server import WaitressServer
from tests.integration.waiting import wait_for

HALF = b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\n"
BODY = (
    b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
)


@pytest.fixture
def server(ctx):
    found = WaitressServer(create_app(ctx), "127.0.0.1", 0)

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


def test_half_sent_requests_keep_nobody_out_and_are_closed(server):
    with contextlib.ExitStack() as open_sockets:
        slow = [open_sockets.enter_context(connect(server, HALF)) for _ in range(300)]
        wait_for(lambda: len(server.active_channels) == len(slow))
        client = http.client.HTTPConnection("127.0.0.1", server.effective_port, timeout=30)
        client.request("GET", "/api/v1/health/live")
        assert client.getresponse().status == 200
        client.close()
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
