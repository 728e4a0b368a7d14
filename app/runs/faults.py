"""Faults of a form as people read them: each field by its label, with a remedy, and with a guess at what was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from pydantic_core import ErrorDetails

LONGEST_ECHO = 60
_REMEDIES = {
    "int_parsing": "give a whole number",
    "int_from_float": "give a whole number",
    "float_parsing": "give a number",
    "finite_number": "give a number",
    "bool_parsing": "give true or false",
    "greater_than": "give a number above {gt}",
    "greater_than_equal": "give {ge} or more",
    "less_than": "give a number below {lt}",
    "less_than_equal": "give {le} or less",
    "string_too_short": "fill it in",
    "missing": "fill it in",
    "string_too_long": "shorten it to {max_length} characters",
    "string_pattern_mismatch": "remove the character NUL",
    "literal_error": "choose {expected}",
}


def sentence(label: str, fault: ErrorDetails) -> str:
    """What is wrong with one field and what to do, from pydantic's account of it."""
    remedy = _REMEDIES.get(fault["type"])
    limits = {name: f"{x:g}" if isinstance(x, float) else x for name, x in fault.get("ctx", {}).items()}
    message = remedy.format(**limits) if remedy else fault["msg"].removeprefix("Value error, ")
    given = str(fault["input"]) if fault["type"] != "missing" else ""
    if not given:
        return f"{label} is empty: {message}"
    shown = given if len(given) <= LONGEST_ECHO else f"{given[:LONGEST_ECHO]}…"
    return f"{label} is “{shown}”: {message}"


def labelled(text: str, field: str, label: str) -> str:
    """A sentence of the service with the field's label in the place of its internal name."""
    return re.sub(rf"^{re.escape(field)}(?= )", label, text)


def with_guess(text: str, given: str, known: Sequence[str]) -> str:
    """The sentence, and which of `known` may have been meant where one is written nearly like `given`."""
    if "did you mean" in text.lower():
        return text
    lower = {word.lower(): word for word in known}
    close = difflib.get_close_matches(given.strip().lower(), lower, n=1, cutoff=0.6)
    return f"{text.rstrip('.')}. Did you mean {lower[close[0]]}?" if close else text


def guesses(errors: Mapping[str, str], values: Mapping[str, str], known: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The sentences, each with a guess where `known` names what the field may hold."""
    return {
        field: with_guess(text, values.get(field, ""), known[field]) if field in known else text
        for field, text in errors.items()
    }
