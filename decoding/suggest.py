"""Suggestions for mistyped names: "did you mean X?"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

MAX_NAME_LENGTH = 200  # characters; comparing takes quadratic time, and longer texts are not names
MAX_NAMES = 2000  # names


def find_nearest(given: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `given`, ignoring case, or None if none is similar."""
    names = {name.lower(): name for name in islice(known, MAX_NAMES) if len(name) <= MAX_NAME_LENGTH}
    near = get_close_matches(given.lower(), names, n=1) if len(given) <= MAX_NAME_LENGTH else []
    return names[near[0]] if near else None


def build_advice(given: str, known: Iterable[str], use: str) -> str:
    """Return `use`, a remedy such as "use one of a, b", after "did you mean X?" if a known name is similar."""
    name = find_nearest(given, known)
    return use if name is None else f"did you mean {name}? {use[0].upper()}{use[1:]}"


def suggest_one_of(given: str, known: Sequence[str]) -> str:
    """Return the advice to use one of the known names, with "did you mean X?" if one is similar."""
    return build_advice(given, known, f"use one of {', '.join(known)}")
