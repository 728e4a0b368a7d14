"""ETags on reads of the API: a client that already has the same content gets 304 without a body."""

from __future__ import annotations

from flask import Flask, Response, request

from app.http.operations import JSON
from app.http.security import is_api


def init(app: Flask) -> None:
    """Tags successful JSON answers to GET with a hash of their content, and answers If-None-Match."""

    app.after_request(_tag)


def _tag(response: Response) -> Response:
    if (request.method, response.status_code, response.mimetype) == ("GET", 200, JSON) and is_api(request.path):
        response.add_etag(weak=True)
        response.make_conditional(request)  # changes the response in place
    return response
