"""Texts near to recorded ones: parts of others in their places, and characters that a function's source names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from evaluation.from_code.calls.recorded import compute_digest

_PARTS = re.compile(r"[^\W\d_]+|\d+|[\W_]+")
_MARKS = re.compile(r"[^\w\s]")
_MAX_PARTS = 40
_MAX_CHARACTERS = 16
_COMMON_TRAPS = ("\t", "\n", " ", "\xe9", "\xa0", "%", "{", "'", '"')
"""White space, a letter and a space that are not in ASCII, what begins a field of a template, and quotation marks."""


def change_text(value: str, alike: Sequence[str], constants: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(kind of the change, another text). `alike` are the texts in this place, `constants` those in the source."""
    yield from (("other case", other) for other in (value.upper(), value.lower(), value.title()) if other != value)
    yield from _change_parts(value, alike)
    yield from (("compared text", constant) for constant in constants)
    for constant in constants:
        if _MARKS.search(constant) and len(constant) > 1:
            yield from (("joined text", other) for other in (value + constant, constant + value))
    for character in _list_characters(constants):
        middle = len(value) // 2
        for other in (value[:middle] + character + value[middle:], character + value, value + character):
            yield f"{character!r} character", other


def _change_parts(value: str, alike: Sequence[str]) -> Iterator[tuple[str, str]]:
    parts = _PARTS.findall(value)
    if not 1 < len(parts) <= _MAX_PARTS:
        return
    by_kind = _group_parts(tuple(alike))
    for number, part in enumerate(parts):
        others = [other for other in by_kind.get(_classify_part(part), ())[:3] if other != part][:2]
        for other in [*others, *(digit for digit in "01" if part.isdigit() and len(part) == 1)]:
            yield f"part {_classify_part(part)[0]}", "".join([*parts[:number], other, *parts[number + 1 :]])
        same = (other for other in parts if other != part and _classify_part(other) == _classify_part(part))
        for other in list(dict.fromkeys(same))[:2]:
            yield "same part", "".join([*parts[:number], other, *parts[number + 1 :]])
        if _classify_part(part) == ("mark", False):
            yield "doubled mark", "".join([*parts[:number], part, *parts[number:]])
            if len(part) > 1:
                yield "shorter mark", "".join([*parts[:number], part[:-1], *parts[number + 1 :]])
    yield from (("shorter text", "".join(cut)) for cut in (parts[:1], parts[:2], parts[:-2], parts[2:]))


def _list_characters(constants: Sequence[str]) -> list[str]:
    """The characters of the source's texts, those first that are neither letters nor digits, at most _MAX_CHARACTERS;
    then _COMMON_TRAPS."""
    found = sorted(set("".join(constants)), key=lambda character: (character.isalnum(), character))
    return [*dict.fromkeys([*found[:_MAX_CHARACTERS], *_COMMON_TRAPS])]


@lru_cache(maxsize=64)
def _group_parts(texts: tuple[str, ...]) -> dict[tuple[str, object], list[str]]:
    """The different parts of texts by what may take each other's places, in an order that depends on them alone."""
    found: dict[tuple[str, object], set[str]] = {}
    for text in texts:
        for part in _PARTS.findall(text)[:_MAX_PARTS]:
            found.setdefault(_classify_part(part), set()).add(part)
    return {kind: sorted(parts, key=lambda part: compute_digest(json.dumps(part))) for kind, parts in found.items()}


def _classify_part(part: str) -> tuple[str, object]:
    """What may stand in the same place of a text: words of the same case, numbers of the same length."""
    if part.isdigit():
        return "number", len(part)
    if part[0].isalpha():
        return "word", (part.islower(), part.isupper(), part.istitle())
    return "mark", part.isspace()
