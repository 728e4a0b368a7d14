"""Which parts of a sample's text the drafter proposed, and which the target supplied."""

from __future__ import annotations

from collections.abc import Sequence

Piece = tuple[str, str]
"""A letter, `d` for draft or `t` for target ("" where that was not kept), and the text that came from there."""


def pieces(text: str, ends: Sequence[int], origins: str) -> list[Piece]:
    """`text` cut where its origin changes; joined, the pieces are the text.

    `ends` and `origins` are those of Sample. What follows the last end (text that was held back because it might have
    become a stop string) belongs to the last token.
    """
    if not ends:
        return [("", text)] if text else []
    found: list[Piece] = []
    start = 0
    bounds = [*ends[:-1], len(text)]
    for end, letter in zip(bounds, origins, strict=False):
        part = text[start : max(end, start)]
        if part and found and found[-1][0] == letter:
            found[-1] = (letter, found[-1][1] + part)
        elif part:
            found.append((letter, part))
        start = max(end, start)
    return found
