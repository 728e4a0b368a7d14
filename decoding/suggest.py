"""What somebody probably meant who typed a name that is not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

LONGEST = 200  # characters; nobody mistypes a longer name, and comparing takes quadratic time
MOST = 2000  # names


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known name nearest to what was given, in any case; None where none is near."""
    names = {name.lower(): name for name in islice(known, MOST) if len(name) <= LONGEST}
    near = get_close_matches(given.lower(), names, n=1) if len(given) <= LONGEST else []
    return names[near[0]] if near else None


def advice(given: str, known: Iterable[str], use: str) -> str:
    """`use`, a remedy such as "use one of a, b", after "did you mean X?" where a known name is near."""
    name = nearest(given, known)
    return use if name is None else f"did you mean {name}? {use[0].upper()}{use[1:]}"


def one_of(given: str, known: Sequence[str]) -> str:
    """The advice to use one of the known names."""
    return advice(given, known, f"use one of {', '.join(known)}")
