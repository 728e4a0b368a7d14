"""What happens before and after every request, in the order of one list."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.site.factory import create_app


@pytest.fixture
def app(ctx):
    return create_app(ctx)


def test_requests_pass_the_layers_inwards(app):
    names = [f"{hook.__module__}.{hook.__name__}" for hook in app.before_request_funcs[None]]
    assert names == [
        "app.web.http.request_log.begin_request_log",
        "app.web.http.disconnect.limit_sending",
        "app.accounts.access.authorize_request",
        "flask_wtf.csrf.csrf_protect",
        "app.web.http.limits.check_size",
        "flask_limiter._extension._check_request_limit",
        "app.web.http.limits.check_texts",
    ]


def test_responses_pass_the_layers_outwards(app):
    hooks = [getattr(hook, "func", hook) for hook in reversed(app.after_request_funcs[None])]
    assert [f"{hook.__module__}.{hook.__name__.removeprefix('_Limiter')}" for hook in hooks] == [
        "app.web.http.responses.add_etag",
        "flask_limiter._extension.__inject_headers",
        "app.web.http.security.set_headers",
        "app.web.http.request_log.end_request_log",
        "app.web.http.request_context.set_retry_after",
        "app.web.http.responses.compress",
    ]


def test_no_other_hook_runs_before_or_after_requests(app):
    """A hook of a blueprint would run at a place that the list does not show."""
    assert set(app.before_request_funcs) == set(app.after_request_funcs) == {None}


def test_a_stranger_is_refused_before_the_body_is_measured(ctx):
    closed = replace(ctx, settings=ctx.settings.model_copy(update={"require_tokens": True}))
    answer = create_app(closed).test_client().post("/api/v1/runs", data=b"x" * (5 * 2**20))
    assert answer.status_code == 401


def test_a_refusal_has_an_id_and_the_security_headers(app):
    answer = app.test_client().post("/api/v1/runs", data=b"x" * (5 * 2**20))
    assert answer.status_code == 413
    assert {"X-Request-ID", "Content-Security-Policy", "Cache-Control"} <= set(answer.headers.keys())
    assert "Retry-After" not in answer.headers
