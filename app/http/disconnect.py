"""Whether the client of a request has closed the connection. WSGI has no call for it; both of our servers do."""

from __future__ import annotations

import select
from collections.abc import Callable, Mapping
from typing import Any

ClientDisconnected = Callable[[], bool]


def disconnect_probe(environ: Mapping[str, Any]) -> ClientDisconnected:
    """A function that returns whether the client has disconnected; callers poll it while they answer the request.

    waitress watches the connection itself if its `channel_request_lookahead` is above 0. gunicorn passes its socket in
    the environment, and poll(2) reports a closed connection without reading from it. Under any other server, the
    function always returns False.
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
