"""REST of the search."""

from __future__ import annotations

from flask import Blueprint

from app.search import service
from app.search.documents import SearchPage
from app.search.schemas import SearchQuery
from app.web.http.operations import operation
from app.web.http.web import session

bp = Blueprint("search_api", __name__, url_prefix="/api/v1")


@bp.get("/search")
@operation({200: SearchPage})
def index(query: SearchQuery) -> SearchPage:
    """Samples that hold the text `q`, newest first. Completions are not found."""
    return service.search(session(), query)
