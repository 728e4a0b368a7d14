"""Texts that no database of ours can hold: PostgreSQL takes no NUL, and half a surrogate pair is no character."""

from __future__ import annotations

import re

from flask import Flask, request

from app.errors import BadInput

_UNFIT = re.compile("[\0\ud800-\udfff]")


def unfit(text: str) -> str | None:
    """What keeps `text` from being stored, in words, or None."""
    found = _UNFIT.search(text)
    if found is None:
        return None
    return "the character NUL" if found[0] == "\0" else f"half a surrogate pair (\\u{ord(found[0]):04x})"


def init(app: Flask) -> None:
    """Refuses addresses and forms with such texts, so that no query meets one. JSON is checked by its schemas.

    Register after the limits: reading a form reads the body.
    """
    app.before_request(_check)


def _check() -> None:
    if fault := unfit(request.path):
        raise BadInput(f"the address holds {fault}: remove it")
    for given in (request.args, request.form):
        for name, value in given.items(multi=True):
            if fault := unfit(name + value):
                raise BadInput(f"{name!r} holds {fault}: remove it", name if name.isprintable() else None)
