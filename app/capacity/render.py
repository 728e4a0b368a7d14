"""Rows of the database as the documents of app/capacity/documents.py."""

from __future__ import annotations

from app.capacity.documents import LoadTestDocument
from app.capacity.models import LoadTest
from app.capacity.schemas import LoadPoint
from evaluation.load_metrics import RateResult, capacity, sentence


def document(row: LoadTest) -> LoadTestDocument:
    """The load test with its capacity."""
    idle = LoadPoint.model_validate(row.idle)
    points = [LoadPoint.model_validate(point) for point in row.points]
    tried = [RateResult(point.rate, point.pass_first) for point in points if point.rate is not None]
    return LoadTestDocument.of(
        row,
        idle=idle,
        points=points,
        capacity=capacity(idle.pass_first, tried),
        sentence=sentence(idle.pass_first, tried),
    )
