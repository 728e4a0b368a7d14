"""Texts that the databases cannot store: PostgreSQL refuses NUL, and half a surrogate pair is not a character."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import StringConstraints

Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
"""A text from outside. PostgreSQL stores no NUL; pydantic itself refuses half a surrogate pair."""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def unstorable_reason(text: str) -> str | None:
    """What keeps `text` from being stored, in words; None if nothing does."""
    match = _UNSTORABLE.search(text)
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
        elif isinstance(one, str) and (reason := unstorable_reason(one)):
            raise ValueError(f"holds {reason}: remove it")
        elif isinstance(one, float) and not math.isfinite(one):
            raise ValueError(f"holds {one}: give a number or null")
        elif isinstance(one, int) and abs(one) >= 2**63:
            raise ValueError("holds a number of more than 64 bits: give a smaller one")
    return value
