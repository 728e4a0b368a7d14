"""What our servers offer beyond WSGI: whether a client is still connected and reads its response."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

from flask import request

ClientDisconnected = Callable[[], bool]
STALLED_S = 30  # seconds after which a connection that reads nothing of its response is closed


def build_disconnect_probe(environ: Mapping[str, Any]) -> ClientDisconnected:
    """A function that says whether the client has disconnected, to be polled; always False under other servers.

    waitress watches the connection itself if its `channel_request_lookahead` is above 0. gunicorn passes its socket.
    """
    waitress: ClientDisconnected | None = environ.get("waitress.client_disconnected")
    if waitress is not None:
        return waitress
    connection = environ.get("gunicorn.socket")
    if connection is None:
        return lambda: False
    watch = select.poll()
    watch.register(connection, select.POLLRDHUP)
    return lambda: bool(watch.poll(0))


def limit_sending() -> None:
    """Lets gunicorn's connection of this request fail once its client takes nothing for STALLED_S seconds: each holds a
    thread. waitress has limits of its own (app/web/http/waitress_server.py)."""
    connection = request.environ.get("gunicorn.socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", STALLED_S, 0))
