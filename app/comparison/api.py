"""REST of two runs compared."""

from __future__ import annotations

import uuid

from flask import Blueprint
from pydantic import Field

from app.comparison.documents import ComparisonDocument
from app.comparison.pair import compare_runs, load_stored_run
from app.runs import repository
from app.web.http.operations import declare_operation
from app.web.http.request_context import get_session
from app.web.http.schemas import Budget, Margin, RequestModel
from evaluation.decisions import MARGIN

bp = Blueprint("overlay_api", __name__, url_prefix="/api/v1")


class CompareQuery(RequestModel):
    """The two runs, and the budget in seconds."""

    reference: uuid.UUID
    other: uuid.UUID
    budget: Budget | None = Field(None, description="seconds; none: the shorter budget of both")
    margin: Margin = Field(100 * MARGIN, description="points within which two runs count as equally good")


@bp.get("/compare")
@declare_operation({200: ComparisonDocument})
def compare(query: CompareQuery) -> ComparisonDocument:
    """Two runs over the same dataset at a budget, paired by task."""
    reference, other = (
        load_stored_run(get_session(), repository.get_run(get_session(), run_id))
        for run_id in (query.reference, query.other)
    )
    return compare_runs(get_session(), reference, other, query.budget, margin=query.margin / 100).build_document()
