"""Which parts of a sample's text the drafter proposed, and which the target supplied."""

from __future__ import annotations

from collections.abc import Sequence

Piece = tuple[str, str]
"""A letter, `d` for draft or `t` for target ("" if unknown), and the text that it supplied."""


def pieces(text: str, ends: Sequence[int], origins: str) -> list[Piece]:
    """`text` cut where its origin changes; joined, the pieces are the text.

    `ends` and `origins` are those of Sample. Text after the last end (held back as the possible beginning of a stop
    string) belongs to the last token.
    """
    if not ends:
        return [("", text)] if text else []
    cut: list[Piece] = []
    start = 0
    bounds = [*ends[:-1], len(text)]
    for end, letter in zip(bounds, origins, strict=False):
        part = text[start : max(end, start)]
        if part and cut and cut[-1][0] == letter:
            cut[-1] = (letter, cut[-1][1] + part)
        elif part:
            cut.append((letter, part))
        start = max(end, start)
    return cut
