"""Errors of a form as sentences that name the label of the field and a remedy."""

from __future__ import annotations

import re

from pydantic_core import ErrorDetails

from app.web.http.schemas import LONGEST_ECHO, NUMBER_REMEDIES
from app.web.ui.display import capitalize_sentence

_REMEDIES = NUMBER_REMEDIES | {
    "finite_number": "give a number",
    "greater_than": "give a number above {gt}",
    "greater_than_equal": "give {ge} or more",
    "less_than": "give a number below {lt}",
    "less_than_equal": "give {le} or less",
    "string_too_short": "fill it in",
    "missing": "fill it in",
    "string_too_long": "shorten it to {max_length} characters",
    "string_pattern_mismatch": "remove the character NUL",
    "literal_error": "choose {expected}",
    "enum": "choose {expected}",
}


def describe_fault(label: str, fault: ErrorDetails) -> str:
    """What is wrong with one field and what to do, from pydantic's account of it."""
    remedy = _REMEDIES.get(fault["type"])
    limits = {name: f"{x:g}" if isinstance(x, float) else x for name, x in fault.get("ctx", {}).items()}
    message = remedy.format(**limits) if remedy else fault["msg"].removeprefix("Value error, ")
    given = str(fault["input"]) if fault["type"] != "missing" else ""
    if not given:
        return f"{label} is empty: {message}"
    shown = given if len(given) <= LONGEST_ECHO else f"{given[:LONGEST_ECHO]}…"
    return f"{label} is “{shown}”: {message}"


def label_field(text: str, field: str, label: str) -> str:
    """A sentence of the service with the field's label instead of its internal name, and a capital letter."""
    return capitalize_sentence(re.sub(rf"^{re.escape(field)}(?=[ :])", label, text))
