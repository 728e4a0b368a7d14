"""How long a run's tasks kept the engine busy."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable

Wall = tuple[dt.datetime, float | None, float | None]
"""When a task was queued, how long it waited, and how long it was decoded (seconds; None before it was)."""


def busy_s(walls: Iterable[Wall], *, together: bool) -> float:
    """Seconds of decoding: the sum over tasks, or where they are decoded `together` the time that they cover.

    What lies between two batches, such as the pause before a run was resumed, is not counted.
    """
    # In seconds since 1970: a loaded file may hold waits that no date can be moved by.
    done = [(queued.timestamp() + (wait or 0.0), wall) for queued, wait, wall in walls if wall is not None]
    if not together:
        return math.fsum(wall for _, wall in done)
    busy, until = 0.0, -math.inf
    for began, wall in sorted(done):
        ended = began + wall
        if ended > until:
            busy += ended - max(began, until)
            until = ended
    return busy
