"""Faults in texts that stand for many: a set of characters or a regular expression that lacks one thing."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MAX_CHARACTERS = 16
_MARK = re.compile(r"(?<!\\)(?:[*+?]\??|\^|\$|\\b)")
_CLASS = re.compile(r"(?<!\\)\[\^?(\]?(?:\\.|[^\]\\])*)\]", re.DOTALL)
_MEMBER = re.compile(r"(?:\\.|[^\\])-(?:\\.|[^\\])|\\.|[^\\]", re.DOTALL)
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:P<\w+>|<[=!]|[:=!]))?|\)|\|", re.DOTALL)
"""What decides where an alternative of a regular expression begins and ends."""
_Span = tuple[int, int]


def drop_characters(text: str) -> list[str]:
    """The text without one of its characters each; nothing for a single one."""
    places = range(min(len(text), _MAX_CHARACTERS) if len(text) > 1 else 0)
    return list(dict.fromkeys(text[:place] + text[place + 1 :] for place in places))


def loosen_pattern(pattern: object) -> Iterator[str]:
    """The regular expression without one mark, one member of a class, or one alternative."""
    if not isinstance(pattern, str):
        return
    marks = [found.span() for found in _MARK.finditer(pattern) if pattern[: found.start()][-1:] not in ("(", "[")]
    for start, end in (*marks, *_find_members(pattern), *_find_alternatives(pattern)):
        other = pattern[:start] + pattern[end:]
        try:
            re.compile(other)
        except re.error:
            continue
        yield other


def _find_members(pattern: str) -> Iterator[_Span]:
    """The characters and ranges in classes of several."""
    for found in _CLASS.finditer(pattern):
        members = list(_MEMBER.finditer(pattern, *found.span(1)))
        yield from (member.span() for member in members if len(members) > 1)


def _find_alternatives(pattern: str) -> Iterator[_Span]:
    """The alternatives, each with one of the bars beside it."""
    groups: list[list[int]] = [[0]]  # the first alternative's start, and the places of the bars
    for found in _TOKEN.finditer(pattern + ")"):
        mark = found[0]
        if mark == "|":
            groups[-1].append(found.start())
        elif mark.startswith("("):
            groups.append([found.end()])
        elif mark == ")" and groups:
            first, *bars = groups.pop()
            starts, ends = [first, *bars], [bar + 1 for bar in bars[:1]] + [*bars[1:], found.start()]
            yield from zip(starts, ends, strict=True) if bars else ()
