"""ETags on reads of the API: a client that already has the same content gets 304 without a body."""

from __future__ import annotations

from flask import Response, request

from app.http.operations import JSON
from app.http.security import is_api


def tag(response: Response) -> Response:
    """Tags a successful JSON response to GET with a hash of its content, and answers If-None-Match."""
    if (request.method, response.status_code, response.mimetype) == ("GET", 200, JSON) and is_api(request.path):
        response.add_etag(weak=True)
        response.make_conditional(request)  # changes the response in place
    return response
