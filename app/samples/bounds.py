"""The bounds of what a run measures, for every file it may come from.

A number beyond them is damage: it was not measured, and pages that compute with it would fail.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field

MAX_COUNT = 2**31 - 1
MAX_SECONDS = 10**9
LEAST_WALL_S = 1e-6
MAX_LOGPROB = 10**6


def _not_tiny(seconds: float) -> float:
    if 0 < seconds < LEAST_WALL_S:
        raise ValueError(f"give 0 or at least {LEAST_WALL_S:g} seconds")
    return seconds


Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
WallSeconds = Annotated[Seconds, AfterValidator(_not_tiny)]
"""Seconds that something is divided by."""
LogProb = Annotated[float, Field(ge=-MAX_LOGPROB, le=MAX_LOGPROB, allow_inf_nan=False)]
VerifySeconds = Annotated[float, Field(ge=1e-9, le=MAX_SECONDS)]
Rate = Annotated[float, Field(ge=1, le=1e24)]
"""Bytes or operations per second."""
# Far from the limits of the databases, whatever the time zone.
Time = Annotated[
    AwareDatetime, Field(ge=dt.datetime(2000, 1, 1, tzinfo=dt.UTC), lt=dt.datetime(3000, 1, 1, tzinfo=dt.UTC))
]
