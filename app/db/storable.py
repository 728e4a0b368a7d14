"""Texts that the databases cannot store: PostgreSQL refuses NUL, and half a surrogate pair is not a character."""

from __future__ import annotations

import re

from flask import Flask, request

from app.errors import BadInput

_UNFIT = re.compile("[\0\ud800-\udfff]")


def unfit(text: str) -> str | None:
    """What keeps `text` from being stored, in words; None if nothing does."""
    match = _UNFIT.search(text)
    if match is None:
        return None
    return "the character NUL" if match[0] == "\0" else f"half a surrogate pair (\\u{ord(match[0]):04x})"


def init(app: Flask) -> None:
    """Refuses addresses and forms with such texts before they reach a query. The schemas check JSON bodies.

    Register it after the limits, because it reads the body of a form.
    """
    app.before_request(_check)


def _check() -> None:
    if fault := unfit(request.path):
        raise BadInput(f"the address holds {fault}: remove it")
    for values in (request.args, request.form):
        for name, value in values.items(multi=True):
            if name is None:  # a part of a multipart form whose header holds no name
                raise BadInput("a part of the form has no name: give each part one")
            if fault := unfit(name + value):
                raise BadInput(f"{name!r} holds {fault}: remove it", name if name.isprintable() else None)
