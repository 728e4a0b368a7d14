"""REST of overlays, of matrices, and of two runs compared."""

from __future__ import annotations

import uuid

from flask import Blueprint
from pydantic import Field

from app.comparison import loading, presentation
from app.comparison.documents import ComparisonDocument, MatrixDocument, OverlayDocument
from app.comparison.loading import Overlaid
from app.comparison.matrix import Only, matrix
from app.comparison.pair import compare_runs, measured_run
from app.core.db.storable import Text
from app.runs import repository
from app.web.http.operations import operation
from app.web.http.schemas import Budget, Margin, RequestModel
from app.web.http.web import session
from evaluation.decisions import MARGIN
from evaluation.verdicts import Failure

bp = Blueprint("overlay_api", __name__, url_prefix="/api/v1")


class OverlayQuery(RequestModel):
    """The runs, which of them is the baseline, and the budget in seconds."""

    runs: Text = Field(description=f"comma-separated ids, {loading.LEAST_RUNS} to {loading.MOST_RUNS}")
    baseline: uuid.UUID | None = Field(None, description="one of them; default: the first")
    budget: Budget | None = Field(
        None, description="seconds; default: the first of 5, 10, 20 ... s with a right sample"
    )


class MatrixQuery(OverlayQuery):
    """Which tasks to list."""

    only: Only = Field("all", description="different: tasks that divide the runs; lost: solved by the baseline only")
    failure: Failure | None = Field(None, description="tasks at which a run failed in this class")


@bp.get("/overlay")
@operation({200: OverlayDocument})
def overlay(query: OverlayQuery) -> OverlayDocument:
    """Runs in one overlay: shares at a budget, paired differences to a baseline, and curves."""
    found = _load(query)
    return OverlayDocument.at(found, _budget(found, query.budget))


@bp.get("/overlay/matrix")
@operation({200: MatrixDocument})
def task_matrix(query: MatrixQuery) -> MatrixDocument:
    """What each run made of each task within a budget; first the tasks that divide the runs most evenly."""
    found = _load(query, details=True)
    budget_s = _budget(found, query.budget)
    return MatrixDocument.at(found, matrix(found, budget_s, query.only, query.failure), budget_s)


class CompareQuery(RequestModel):
    """The two runs, and the budget in seconds."""

    reference: uuid.UUID
    other: uuid.UUID
    budget: Budget | None = Field(None, description="seconds; none: the shorter budget of both")
    margin: Margin = Field(100 * MARGIN, description="points within which two runs are as good")


@bp.get("/compare")
@operation({200: ComparisonDocument})
def compare(query: CompareQuery) -> ComparisonDocument:
    """Two runs over the same dataset at a budget, paired by task."""
    reference, other = (
        measured_run(session(), repository.get_run(session(), run_id)) for run_id in (query.reference, query.other)
    )
    return ComparisonDocument.at(compare_runs(session(), reference, other, query.budget, margin=query.margin / 100))


def _load(query: OverlayQuery, *, details: bool = False) -> Overlaid:
    ids = loading.baseline_first(loading.parse_ids([query.runs]), query.baseline)
    found = loading.load(session(), ids, details=details)
    if found.left_out:
        raise found.left_out[0]
    return found


def _budget(found: Overlaid, asked: float | None) -> float:
    presentation.require_measured(found, asked)
    return asked or presentation.opening_budget(found)
