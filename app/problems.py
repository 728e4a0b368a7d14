"""Errors as RFC 9457 problem details under /api, and as a page elsewhere. The only place that maps errors to HTTP."""

from __future__ import annotations

import http
from typing import Any

import structlog
from flask import Flask, Response, json, render_template, request
from jinja2 import TemplateNotFound
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from app.errors import BadInput, BasslineError
from app.runs.schemas import bad_input

log = structlog.get_logger(__name__)


def init(app: Flask) -> None:
    """Registers one handler each for our errors, pydantic's, HTTP's and the unforeseen."""
    app.register_error_handler(BasslineError, lambda e: _answer(e.status, str(e), e.code, getattr(e, "field", None)))
    app.register_error_handler(ValidationError, _invalid)
    app.register_error_handler(HTTPException, lambda e: _answer(e.code or 500, e.description or e.name, "http"))
    app.register_error_handler(Exception, _unforeseen)


def _invalid(error: ValidationError) -> Response:
    fault = bad_input(error)
    return _answer(BadInput.status, str(fault), BadInput.code, fault.field)


def _unforeseen(error: Exception) -> Response:
    log.error("request failed", path=request.path, exc_info=error)
    return _answer(500, "something went wrong on the server; its log says what", "error")


def _answer(status: int, detail: str, code: str, field: str | None = None) -> Response:
    title = http.HTTPStatus(status).phrase
    if not request.path.startswith("/api/"):
        return _page(status, title, detail)
    problem: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": request.path,
        "code": code,
    }
    if field:
        problem["errors"] = [{"field": field, "detail": detail}]
    return Response(json.dumps(problem), status, content_type="application/problem+json")


def _page(status: int, title: str, detail: str) -> Response:
    try:
        return Response(render_template("site/error.html", status=status, title=title, detail=detail), status)
    except TemplateNotFound:
        return Response(f"{status} {title}: {detail}\n", status, content_type="text/plain; charset=utf-8")
