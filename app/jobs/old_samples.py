"""Indexes the samples that earlier versions stored, a few seconds after each sweep of the reaper."""

from __future__ import annotations

import time

from app.context import Context
from app.runs import indexing

SLICE_S = 3.0  # of the reaper's interval: what follows in the same queue waits no longer


def index(ctx: Context) -> None:
    """Indexes for some seconds, or until none is left.

    While a task is decoded or graded on this CPU it stops, so as not to disturb the clock. The next sweep goes on.
    """
    until = time.monotonic() + SLICE_S
    while time.monotonic() < until and not ctx.stopping.is_set():
        if not ctx.cpu.acquire(blocking=False):
            return
        try:
            if not indexing.read_old(ctx.database):
                return
        finally:
            ctx.cpu.release()
