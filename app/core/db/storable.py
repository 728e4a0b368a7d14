"""Texts that the databases cannot store: PostgreSQL refuses NUL, and half a surrogate pair is not a character."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, StringConstraints

InputText = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
"""A text from outside. PostgreSQL stores no NUL; pydantic itself refuses half a surrogate pair."""


def clean_name(text: str) -> str:
    """The name without surrounding whitespace. Raises ValueError for a name of which nothing can be seen."""
    name = text.strip()
    if text and not any(character.isprintable() and not character.isspace() for character in name):
        raise ValueError("nothing of it can be seen: give a name with a letter, or leave it out")
    return name


DisplayName = Annotated[InputText, AfterValidator(clean_name)]
"""The name that somebody gives to a run, a study, an arm or a dataset; empty for none."""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_FOR_SURROGATES = "\N{REPLACEMENT CHARACTER}\N{VARIATION SELECTOR-15}"
_STAND_INS = {"\0": "\N{SYMBOL FOR NULL}\N{VARIATION SELECTOR-15}"}


def find_unstorable_reason(text: str) -> str | None:
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
        elif isinstance(one, str) and (reason := find_unstorable_reason(one)):
            raise ValueError(f"holds {reason}: remove it")
        elif isinstance(one, float) and not math.isfinite(one):
            raise ValueError(f"holds {one}: give a number or null")
        elif isinstance(one, int) and abs(one) >= 2**63:
            raise ValueError("holds a whole number of 2**63 or more, or -2**63 or less: give a smaller one")
    return value


def make_storable(text: str) -> str:
    """The text with a stand-in for each character that no database stores, see types.OutputText."""
    return _UNSTORABLE.sub(lambda found: _STAND_INS.get(found[0], _FOR_SURROGATES), text)


def restore_original_text(stored: str) -> str:
    """Source code as it was before an OutputText column stored it, for execution.

    Python rejects a program with U+0000 or a lone surrogate, but accepts the replacement in strings and comments: the
    verdict would change. Every surrogate becomes U+D800; which one it was is not stored.
    """
    for character, stand_in in (*_STAND_INS.items(), ("\ud800", _FOR_SURROGATES)):
        stored = stored.replace(stand_in, character)
    return stored
