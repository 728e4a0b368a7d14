"""Small HTTP servers of tests."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from socketserver import BaseServer
from typing import TypeVar

Server = TypeVar("Server", bound=BaseServer)


@contextlib.contextmanager
def serve(server: Server) -> Iterator[Server]:
    """The server while it answers. It notices its end at once: by default it looks for it only twice a second."""
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
