"""Load tests as the API shows them. Times are ISO 8601, durations seconds, shares from 0 to 1."""

from __future__ import annotations

import datetime as dt
import uuid

from pydantic import Field

from app.capacity.models import LoadTest
from app.capacity.schemas import LoadPoint, LoadSettings
from app.http.schemas import ResponseModel
from app.runs.clock import LOST_TO_OTHERS
from evaluation.load_metrics import RateResult, capacity, sentence


class LoadTestDocument(ResponseModel):
    """A load test of one service."""

    id: uuid.UUID
    name: str
    created_at: dt.datetime
    settings: LoadSettings
    idle: LoadPoint = Field(description="the service with one request at a time")
    points: list[LoadPoint] = Field(description="the service under load, by rate")
    capacity: float | None = Field(
        description="the highest tried rate (requests per second) at which Pass@First is within 5 points of idle"
    )
    sentence: str = Field(description="the capacity in words")
    disturbed: int = Field(description="points at which other programs took more of the machine than the limit")
    lost_max: float | None = Field(description="the largest share of the machine that they took; null: unknown")


class LoadTestPage(ResponseModel):
    """Load tests, newest first."""

    load_tests: list[LoadTestDocument]
    next: str | None


def document(row: LoadTest) -> LoadTestDocument:
    """The load test with its capacity."""
    idle = LoadPoint.model_validate(row.idle)
    points = [LoadPoint.model_validate(point) for point in row.points]
    tried = [RateResult(point.rate, point.pass_first) for point in points if point.rate is not None]
    lost = [share for point in (idle, *points) if (share := point.lost_to_others) is not None]
    return LoadTestDocument.of(
        row,
        idle=idle,
        points=points,
        capacity=capacity(idle.pass_first, tried),
        sentence=sentence(idle.pass_first, tried),
        disturbed=sum(share > LOST_TO_OTHERS for share in lost),
        lost_max=max(lost, default=None),
    )
