"""waitress with limits for clients that send or read slowly, so that they never keep others out."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

from flask import Flask
from waitress.adjustments import Adjustments  # type: ignore[import-untyped]
from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
from waitress.parser import HTTPRequestParser, ParsingError  # type: ignore[import-untyped]
from waitress.server import TcpWSGIServer  # type: ignore[import-untyped]
from waitress.wasyncore import dispatcher  # type: ignore[import-untyped]

from app.core.settings import WEB_THREADS
from app.web.http.disconnect import STALLED_S

CONNECTIONS = 500  # open at a time; each takes a file descriptor, and many systems allow a process 1024
IDLE_TIMEOUT_S = 15  # after which a connection without a whole request is closed
CLEANUP_INTERVAL_S = 3  # between looks for such connections
LEAST_BYTES_PER_S = 32 * 1024  # at which a request must arrive
LEAST_BYTES_TAKEN_PER_S = 4 * 1024  # of a response
KERNEL_BYTES = 128 * 1024  # sent ahead by the kernel for one connection; it grants twice that
MEMORY_BYTES = 256 * 1024  # of a response in memory for one connection; the rest goes to a file
PENDING_BYTES = 2**20  # of a response, above which its view waits. More than a page has, so that only downloads wait.


class _Parser(HTTPRequestParser):  # type: ignore[misc]
    """Refuses what a proxy in front might read as the end of another request, and expects no body where none comes."""

    expect_continue: bool

    def parse_header(self, header_plus: bytes) -> None:
        lines = header_plus.upper().split(b"\r\n")
        encodings = [line.partition(b":")[2].strip(b" \t") for line in lines if line.startswith(b"TRANSFER-ENCODING:")]
        super().parse_header(header_plus)
        if not encodings:
            self.expect_continue = self.expect_continue and self.body_rcv is not None
            return
        if "CONTENT_LENGTH" in self.headers:
            raise ParsingError("Content-Length and Transfer-Encoding are both given: send one of them")
        if self.version != "1.1" or encodings != [b"CHUNKED"]:
            raise ParsingError("Transfer-Encoding is not understood: send chunked once, with HTTP/1.1")


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection on which bytes count as activity only at a minimum rate.

    To waitress every byte of an unfinished request is activity, and a connection whose response is not taken never
    ends, so a client that sends or takes one byte now and then would keep its connection, and a thread, for good.
    """

    parser_class = _Parser
    last_activity: float
    total_outbufs_len: int
    _received = 0
    _taken_until = 0.0
    _is_writing = False

    def recv(self, size: int) -> bytes:
        data: bytes = super().recv(size)
        self._received = len(data)
        return data

    def handle_read(self) -> None:
        before, is_unfinished = self.last_activity, self.request is not None
        super().handle_read()
        if is_unfinished:
            self.last_activity = min(self.last_activity, before + self._received / LEAST_BYTES_PER_S)

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close=do_close)
        self._taken_until = min(time.time(), self._taken_until + sent / LEAST_BYTES_TAKEN_PER_S)
        return sent

    def write_soon(self, data: bytes) -> int:
        if not self.total_outbufs_len:
            self._taken_until = time.time()
        self._is_writing = True
        try:
            written: int = super().write_soon(data)
        finally:
            self._is_writing = False
        return written

    def _flush_outbufs_below_high_watermark(self) -> None:
        # Also called before the next request of a connection is answered: a thread must not wait for that.
        if self._is_writing:
            super()._flush_outbufs_below_high_watermark()

    def is_stalled(self, now: float) -> bool:
        """Whether the client has taken too little of its response for STALLED_S seconds."""
        return self.total_outbufs_len > 0 and now - self._taken_until > STALLED_S

    def reset(self) -> None:
        """Ends the connection at once, without the bytes that the kernel holds for it.

        Its socket is ready for nothing else, so `will_close` alone would wait for a client that takes nothing.
        """
        self.will_close = True
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.socket.shutdown(socket.SHUT_RDWR)


class WaitressServer(TcpWSGIServer):  # type: ignore[misc]
    """The embedded form's server; listens once it is made, and `run` serves."""

    channel_class = _Channel

    def __init__(self, pages: Flask, host: str, port: int) -> None:
        limits = Adjustments(
            host=host,
            port=port,
            threads=WEB_THREADS,
            connection_limit=CONNECTIONS,
            channel_timeout=IDLE_TIMEOUT_S,
            clear_untrusted_proxy_headers=False,  # BASSLINE_PROXIES says which of them count (security.init)
            cleanup_interval=CLEANUP_INTERVAL_S,
            channel_request_lookahead=1,  # it then notices a client that disconnects before it is answered
            outbuf_overflow=MEMORY_BYTES,
            outbuf_high_watermark=PENDING_BYTES,
            asyncore_use_poll=True,  # select(2) fails for file descriptors above 1023
        )
        super().__init__(pages, adj=limits)

    def set_socket_options(self, conn: socket.socket) -> None:
        """Also limits the kernel's send buffer; with a large one, a reader's progress would show only every few MB."""
        super().set_socket_options(conn)
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)

    def close(self) -> None:
        """Stops listening. The pipe that wakes the loop stays open: a thread that still answers writes to it, and a
        closed one's number may belong to the database by then."""
        self.trigger.del_channel(self._map)
        dispatcher.close(self)

    def maintenance(self, now: float) -> None:
        """Also closes connections whose responses are not taken."""
        super().maintenance(now)
        for channel in self.active_channels.values():
            if channel.is_stalled(now):
                channel.reset()
