"""REST of load tests: stored by `bassline bench load --url`, and read."""

from __future__ import annotations

import uuid

from flask import Blueprint, url_for

from app.capacity import repository, service
from app.capacity.documents import LoadTestDocument, LoadTestPage, document
from app.capacity.schemas import LoadTestSpec
from app.http.operations import operation
from app.http.paging import PageQuery, page_from_rows
from app.http.security import needs
from app.http.web import context, session
from app.states import Scope

bp = Blueprint("capacity_api", __name__, url_prefix="/api/v1")


@bp.post("/capacity")
@needs(Scope.SUBMIT)
@operation({201: LoadTestDocument})
def create(body: LoadTestSpec) -> tuple[LoadTestDocument, dict[str, str]]:
    """Stores a load test that has ended. Its address is in the header Location."""
    load_test_id = service.store(context(), body)
    with context().database.read() as fresh:
        found = document(repository.get_load_test(fresh, load_test_id))
    return found, {"Location": url_for("capacity_api.show", load_test_id=load_test_id)}


@bp.get("/capacity")
@operation({200: LoadTestPage})
def index(query: PageQuery) -> LoadTestPage:
    """Load tests, newest first."""
    rows = repository.list_load_tests(session(), limit=query.limit + 1, before=query.id())
    page, following = page_from_rows(rows, query, lambda row: str(row.id))
    return LoadTestPage(load_tests=[document(row) for row in page], next=following)


@bp.get("/capacity/<uuid:load_test_id>")
@operation({200: LoadTestDocument})
def show(load_test_id: uuid.UUID) -> LoadTestDocument:
    """A load test with its points and its capacity."""
    return document(repository.get_load_test(session(), load_test_id))


@bp.delete("/capacity/<uuid:load_test_id>")
@needs(Scope.ADMIN)
@operation({204: None})
def delete(load_test_id: uuid.UUID) -> None:
    """Deletes a load test."""
    service.delete_load_test(context(), load_test_id)
