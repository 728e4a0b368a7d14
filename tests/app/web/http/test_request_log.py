"""Every answer names the id of its request, and the request's log lines carry the same one."""

from __future__ import annotations

import uuid

import pytest
from structlog.contextvars import get_contextvars, merge_contextvars
from structlog.testing import capture_logs

from app.site.factory import create_app
from app.web.http.request_log import HEADER


@pytest.fixture
def app(ctx):
    return create_app(ctx)


@pytest.mark.parametrize("given", ["a", "trace-1.2_x", "x" * 64])
def test_a_caller_s_id_is_answered_and_logged(app, given):
    with capture_logs(processors=[merge_contextvars]) as lines:
        answer = app.test_client().get("/api/v1/runs", headers={HEADER: given})
    assert answer.headers[HEADER] == given
    (line,) = [line for line in lines if line["event"] == "request"]
    assert (line["request"], line["path"], line["status"]) == (given, "/api/v1/runs", 200)


@pytest.mark.parametrize("given", ["", "x" * 65, "two words", "<b>", "é", 'a"b'])
def test_an_id_that_could_harm_a_log_is_replaced(app, given):
    answer = app.test_client().get("/api/v1/runs", headers={HEADER: given})
    assert uuid.UUID(answer.headers[HEADER])


@pytest.mark.parametrize(
    ("path", "status"), [("/nowhere", 404), ("/api/v1/nowhere", 404), ("/api/v1/runs?limit=x", 422)]
)
def test_an_error_has_an_id_too(app, path, status):
    answer = app.test_client().get(path)
    assert (answer.status_code, len(answer.headers[HEADER])) == (status, 32)


def test_no_two_requests_share_an_id_and_nothing_of_one_is_bound_in_the_next(app):
    client = app.test_client()

    @app.get("/bound")
    def bound():
        return get_contextvars()

    first, second = client.get("/bound"), client.get("/bound")
    assert first.headers[HEADER] != second.headers[HEADER]
    assert second.json == {"request": second.headers[HEADER]}


def test_probes_and_static_files_are_not_logged(app):
    client = app.test_client()
    with capture_logs() as lines:
        assert client.get("/api/v1/health/live").headers[HEADER]
        assert client.get(f"{app.static_url_path}/js/theme.js").headers[HEADER]
    assert [line for line in lines if line["event"] == "request"] == []
