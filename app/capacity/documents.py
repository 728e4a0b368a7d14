"""Load tests as the API shows them. Times are ISO 8601, durations seconds, shares from 0 to 1."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import asdict

from pydantic import Field

from app.capacity.models import LoadTest
from app.capacity.schemas import LoadPoint, LoadSettings
from app.http.schemas import ResponseModel
from app.runs.clock import LOST_TO_OTHERS
from evaluation.load_comparison import Verdict, bound_capacity
from evaluation.load_metrics import RateResult, against_idle
from evaluation.load_sentences import LoadedService, describe_capacity


class RateDifference(ResponseModel):
    """Pass@First at a rate minus Pass@First of the idle service, paired by prompt."""

    rate: float = Field(description="requests per second")
    delta: float
    low: float = Field(description="of the 95 % interval over prompts")
    high: float
    prompts: int
    requests: int = Field(description="at the rate and idle")
    verdict: Verdict = Field(
        description="better: the interval excludes 0; as_good: within 5 points; undecided: neither is shown"
    )
    prompts_needed: int = Field(description="would show a difference of 5 points in 80 % of the cases")


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
    capacity_low: float | None = Field(
        description="up to this rate Pass@First is shown (95 %) to be within 5 points; null: at no rate"
    )
    capacity_high: float | None = Field(
        description="every tried rate above it is shown to lose more; null: every rate is, or nothing is known"
    )
    against_idle: list[RateDifference] = Field(description="each rate minus idle; empty: not stored by prompt")
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
    service = summarize(row.name, LoadSettings.model_validate(row.settings), idle, points)
    compared = against_idle(service.idle, service.tried)
    shown = bound_capacity(compared)
    lost = [share for point in (idle, *points) if (share := point.lost_to_others) is not None]
    return LoadTestDocument.of(
        row,
        idle=idle,
        points=points,
        capacity=service.capacity,
        capacity_low=shown.low,
        capacity_high=shown.high,
        against_idle=[RateDifference(rate=rate, **asdict(found)) for rate, found in compared],
        sentence=describe_capacity(service),
        disturbed=sum(share > LOST_TO_OTHERS for share in lost),
        lost_max=max(lost, default=None),
    )


def summarize(name: str, settings: LoadSettings, idle: LoadPoint, points: Sequence[LoadPoint]) -> LoadedService:
    """What the sentences about a load test are about."""
    return LoadedService(
        name=name,
        idle=RateResult(0.0, idle.pass_first, idle.by_prompt),
        tried=[RateResult(one.rate, one.pass_first, one.by_prompt) for one in points if one.rate is not None],
        budget_s=settings.budget_s,
        dataset=settings.dataset,
        dataset_tasks=settings.dataset_tasks,
    )
