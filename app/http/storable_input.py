"""Refuses addresses and forms with texts that no database stores, before they reach a query."""

from __future__ import annotations

from flask import request

from app.db.storable import unstorable_reason
from app.errors import BadInputError


def check() -> None:
    """Raises BadInputError for the path, the query or the form of this request. The schemas check JSON bodies."""
    if reason := unstorable_reason(request.path):
        raise BadInputError(f"the address holds {reason}: remove it")
    for values in (request.args, request.form):
        for name, value in values.items(multi=True):
            if name is None:  # a part of a multipart form whose header holds no name
                raise BadInputError("a part of the form has no name: give each part one")
            if reason := unstorable_reason(name + value):
                raise BadInputError(f"{name!r} holds {reason}: remove it", name if name.isprintable() else None)
