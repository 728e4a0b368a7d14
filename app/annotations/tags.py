"""Tags: short words by which people find rows again."""

from __future__ import annotations

import re

from app.core.errors import BadInputError

LONGEST_TAG = 40
MOST_TAGS = 20
PATTERN = rf"^[A-Za-z0-9_.:/-]{{1,{LONGEST_TAG}}}$"
RULE = f"give 1 to {LONGEST_TAG} letters from a to z, digits and - _ . : /"
_LONGEST_ECHO = 60
_TAG = re.compile(PATTERN.removesuffix("$") + r"\Z")


def lowered(text: str) -> str:
    """The tag as it is stored. Raises ValueError with the remedy for an invalid tag."""
    if not _TAG.match(text):
        raise ValueError(RULE)
    return text.lower()


def parse_tag(text: str) -> str:
    """The tag as it is stored. Raises BadInputError."""
    try:
        return lowered(text)
    except ValueError as rule:
        shown = repr(text) if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]!r}... ({len(text)} characters)"
        raise BadInputError(f"tag is {shown}: {rule}", "tag") from None


def parse_tags(text: str) -> tuple[str, ...]:
    """The tags in a space-separated or comma-separated text. Raises BadInputError for an invalid tag, and for no
    tags."""
    words = [word for word in re.split(r"[\s,]+", text) if word]
    if not words:
        raise BadInputError("tag is empty: give at least one", "tag")
    return tuple(map(parse_tag, words))
