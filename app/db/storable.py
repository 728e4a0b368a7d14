"""Texts that the databases cannot store: PostgreSQL refuses NUL, and half a surrogate pair is not a character."""

from __future__ import annotations

import math
import re
from typing import Any

from flask import Flask, request

from app.errors import BadInputError

_UNFIT = re.compile("[\0\ud800-\udfff]")


def unfit(text: str) -> str | None:
    """What keeps `text` from being stored, in words; None if nothing does."""
    match = _UNFIT.search(text)
    if match is None:
        return None
    return "the character NUL" if match[0] == "\0" else f"half a surrogate pair (\\u{ord(match[0]):04x})"


def require_storable(value: Any) -> Any:
    """The value of JSON, if databases can store every text and number in it. Raises ValueError."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            left += one
        elif isinstance(one, str) and (fault := unfit(one)):
            raise ValueError(f"holds {fault}: remove it")
        elif isinstance(one, float) and not math.isfinite(one):
            raise ValueError(f"holds {one}: give a number or null")
        elif isinstance(one, int) and abs(one) >= 2**63:
            raise ValueError("holds a number of more than 64 bits: give a smaller one")
    return value


def init(app: Flask) -> None:
    """Refuses addresses and forms with such texts before they reach a query. The schemas check JSON bodies.

    Register it after the limits, because it reads the body of a form.
    """
    app.before_request(_check)


def _check() -> None:
    if fault := unfit(request.path):
        raise BadInputError(f"the address holds {fault}: remove it")
    for values in (request.args, request.form):
        for name, value in values.items(multi=True):
            if name is None:  # a part of a multipart form whose header holds no name
                raise BadInputError("a part of the form has no name: give each part one")
            if fault := unfit(name + value):
                raise BadInputError(f"{name!r} holds {fault}: remove it", name if name.isprintable() else None)
