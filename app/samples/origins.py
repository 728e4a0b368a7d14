"""Which parts of a sample's text the drafter proposed, and which the target supplied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Piece = tuple[str, str]
"""A letter, `d` for draft or `t` for target ("" if unknown), and the text that it supplied."""


def tokens(text: str, ends: Sequence[int], origins: str) -> Iterator[Piece]:
    """The text of each token; joined, they are `text`.

    `ends` and `origins` are columns of Sample. Text after the last end (held back as the possible start of a stop
    string) belongs to the last token. Without `ends` the whole text is one piece of unknown origin.
    """
    if not ends:
        yield "", text
        return
    start = 0
    for end, letter in zip([*ends[:-1], len(text)], origins, strict=False):
        yield letter, text[start : max(end, start)]
        start = max(end, start)


def pieces(text: str, ends: Sequence[int], origins: str) -> list[Piece]:
    """`text` cut where its origin changes; joined, the pieces are the text. The arguments are as in `tokens`."""
    cut: list[Piece] = []
    for letter, part in tokens(text, ends, origins):
        if part and cut and cut[-1][0] == letter:
            cut[-1] = (letter, cut[-1][1] + part)
        elif part:
            cut.append((letter, part))
    return cut
