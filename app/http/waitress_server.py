"""waitress with limits for clients that send slowly, so that they never keep others out."""

from __future__ import annotations

from flask import Flask
from waitress.adjustments import Adjustments  # type: ignore[import-untyped]
from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
from waitress.server import TcpWSGIServer  # type: ignore[import-untyped]

from app.settings import WEB_THREADS

CONNECTIONS = 500  # open at a time; each takes a file descriptor, and many systems allow a process 1024
SILENT_S = 15  # after which a connection without a whole request is closed
LOOK_S = 3  # between looks for such connections
LEAST_BYTES_PER_S = 32 * 1024  # at which a request must arrive


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection on which bytes of an unfinished request count as activity only for the time they may take.

    To waitress every byte is activity, so a client that sends one now and then would keep its connection for good.
    """

    last_activity: float
    _received = 0

    def recv(self, size: int) -> bytes:
        data: bytes = super().recv(size)
        self._received = len(data)
        return data

    def handle_read(self) -> None:
        before, is_unfinished = self.last_activity, self.request is not None
        super().handle_read()
        if is_unfinished:
            self.last_activity = min(self.last_activity, before + self._received / LEAST_BYTES_PER_S)


class WaitressServer(TcpWSGIServer):  # type: ignore[misc]
    """The embedded form's server; listens once it is made, and `run` serves."""

    channel_class = _Channel

    def __init__(self, pages: Flask, host: str, port: int) -> None:
        limits = Adjustments(
            host=host,
            port=port,
            threads=WEB_THREADS,
            connection_limit=CONNECTIONS,
            channel_timeout=SILENT_S,
            cleanup_interval=LOOK_S,
            channel_request_lookahead=1,  # it then notices a client that disconnects before it is answered
            asyncore_use_poll=True,  # select(2) fails for file descriptors above 1023
        )
        super().__init__(pages, adj=limits)
