"""The part of a sample that a search shows: the lines with the first match of each term, and the matches marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.samples.words import fold
from app.search.terms import Term

AROUND = 90  # characters of a line shown on each side of a match
LONGEST_MATCH = 300  # characters of one match: a phrase may stretch over many lines
MOST_PARTS = 3

Span = tuple[int, int]
Part = list[tuple[str, bool]]


@dataclass(frozen=True)
class Excerpt:
    """Parts of one text of a sample; `where` is the name of its column.

    Each part is a list of (text, whether a term stands there); joined, its texts are the part.
    """

    where: str
    parts: list[Part]


def fits(texts: Mapping[str, str], terms: Sequence[Term]) -> bool:
    """Whether each term stands in one of the texts."""
    folded = fold("\0".join(texts.values()))  # no term holds the separator: texts with NUL are not stored
    return all(term.pattern.search(folded) for term in terms)


def excerpt(texts: Mapping[str, str], terms: Sequence[Term]) -> Excerpt:
    """An excerpt of the text that holds the most terms, of the first one among equals. Empty without terms."""
    found = {name: [list(term.matches(fold(text))) for term in terms] for name, text in texts.items()}
    where = max(found, key=lambda name: sum(map(bool, found[name])), default="")
    matches = [of_term for of_term in found.get(where, ()) if of_term]
    if not matches:
        return Excerpt("", [])
    text = texts[where]
    parts = _merged(_line_around(text, _cut(of_term[0])) for of_term in matches)[:MOST_PARTS]
    marks = _merged(_cut(match) for of_term in matches for match in of_term)
    return Excerpt(where, [_marked(text, part, marks) for part in parts])


def marked(text: str, terms: Sequence[Term]) -> Part:
    """The beginning of a text with the matches of the terms in it."""
    text = text[:LONGEST_MATCH]
    folded = fold(text)
    return _marked(text, (0, len(text)), _merged(match for term in terms for match in term.matches(folded)))


def _cut(match: Span) -> Span:
    return match[0], min(match[1], match[0] + LONGEST_MATCH)


def _line_around(text: str, match: Span) -> Span:
    start, end = match
    line_start, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    line_start += len(text[line_start:start]) - len(text[line_start:start].lstrip())
    line_end = len(text) if line_end < 0 else line_end
    return max(line_start, start - AROUND), min(line_end, end + AROUND)


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _marked(text: str, part: Span, marks: Sequence[Span]) -> Part:
    pieces, last = [], part[0]
    for start, end in marks:
        start, end = max(start, part[0]), min(end, part[1])  # noqa: PLW2901
        if start < end:
            pieces += [(text[last:start], False), (text[start:end], True)]
            last = end
    return [(piece, marked) for piece, marked in [*pieces, (text[last : part[1]], False)] if piece]
