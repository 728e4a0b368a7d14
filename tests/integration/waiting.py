"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], timeout_s: float = 300.0) -> None:
    """Return when the condition holds. The timeout only ends a test that hangs: a machine may be very busy."""
    limit = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < limit, "condition did not come true in time"
        time.sleep(0.05)
