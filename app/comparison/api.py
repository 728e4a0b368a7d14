"""REST of comparisons."""

from __future__ import annotations

import uuid
from dataclasses import asdict

from flask import Blueprint
from pydantic import Field

from app.comparison import comparing
from app.comparison.decision import decide
from app.comparison.documents import ComparisonDocument
from app.http.operations import operation
from app.http.schemas import RequestModel
from app.http.web import session
from app.runs import repository

bp = Blueprint("comparison_api", __name__, url_prefix="/api/v1")


class CompareQuery(RequestModel):
    """The two runs, and the budget in seconds."""

    reference: uuid.UUID
    other: uuid.UUID
    budget: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="seconds; none: the shorter budget of both"
    )


@bp.get("/compare")
@operation({200: ComparisonDocument})
def compare(query: CompareQuery) -> ComparisonDocument:
    """Two runs over the same dataset at a budget, paired by task."""
    reference = repository.get_run(session(), query.reference)
    other = repository.get_run(session(), query.other)
    found = comparing.compare_runs(session(), reference, other, query.budget)
    return ComparisonDocument.model_validate({**found.document(), "conclusion": asdict(decide(found))})
