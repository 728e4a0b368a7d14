"""Limits how often an address may send tokens that are not valid, before any of them costs a look into the database."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import OrderedDict

from flask import g
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from werkzeug.exceptions import TooManyRequests

FAILURES = parse("60 per minute")
REMEMBERED = 1000


class FailureLimit:
    """The failures of each address at this process, which needs no other server to count them.

    Tokens that were valid lately are looked up whatever others at their address do, so that nobody can lock them out.
    """

    def __init__(self) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._valid: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()

    def require_few(self, address: str, token: str) -> None:
        """Raises TooManyRequests for an address with too many failures, unless the token was valid lately."""
        if self._limiter.test(FAILURES, address) or _digest(token) in self._valid:
            return
        left_s = self._limiter.get_window_stats(FAILURES, address).reset_time - time.time()
        g.retry_after_s = max(math.ceil(left_s), 1)
        raise TooManyRequests("too many tokens that are not valid came from this address: try again in a minute")

    def count(self, address: str) -> None:
        """Counts a token of this address that was not valid."""
        self._limiter.hit(FAILURES, address)

    def remember(self, token: str) -> None:
        """Notes a token that was valid."""
        with self._lock:
            self._valid[_digest(token)] = None
            self._valid.move_to_end(_digest(token))
            if len(self._valid) > REMEMBERED:
                self._valid.popitem(last=False)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
