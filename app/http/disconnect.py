"""Whether the client of a request has hung up: WSGI does not say, but both of our servers can be asked."""

from __future__ import annotations

import select
from collections.abc import Callable, Mapping
from typing import Any

Left = Callable[[], bool]


def asker(environ: Mapping[str, Any]) -> Left:
    """A question to be asked as often as one likes while the request is answered. Under other servers it says no.

    waitress watches the connection by itself if its `channel_request_lookahead` is above 0; gunicorn hands its socket
    out, which the kernel is asked about without reading from it.
    """
    waitress: Left | None = environ.get("waitress.client_disconnected")
    if waitress is not None:
        return waitress
    connection = environ.get("gunicorn.socket")
    if connection is None:
        return lambda: False
    watch = select.poll()
    watch.register(connection, select.POLLRDHUP)
    return lambda: bool(watch.poll(0))
