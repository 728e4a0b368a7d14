"""The page Search: a form whose address holds the text, and the samples that hold it with an excerpt each."""

from __future__ import annotations

from flask import Blueprint, render_template, request

from app.core.errors import BadInputError
from app.search import service
from app.search.schemas import LONGEST, SearchQuery
from app.web.http.schemas import parse_spec
from app.web.http.web import session
from app.web.ui.form_errors import labelled

bp = Blueprint("search", __name__)

LABELS = {"q": "Text", "run": "Run", "cursor": "Cursor"}


@bp.get("/search")
def index() -> str | tuple[str, int]:
    """Samples that hold the text `?q=`, of all runs or of `?run=`, newest first; `?cursor=` gives the next page."""
    given = {name: value for name in LABELS if (value := request.args.get(name, "").strip())}
    found, error = None, ""
    if "q" in given:
        try:
            found = service.search(session(), parse_spec(SearchQuery, given))
        except BadInputError as fault:
            name = fault.field or "q"
            error = labelled(str(fault), name, LABELS[name])
    page = render_template(
        "search/index.html",
        q=given.get("q", "")[: LONGEST + 1],  # a longer text would only come back as a larger page
        run=given.get("run"),
        is_first="cursor" not in given,
        names=service.SEARCHED,
        looked_at=service.LOOKED_AT,
        found=found,
        error=error,
    )
    return (page, BadInputError.status) if error else page
