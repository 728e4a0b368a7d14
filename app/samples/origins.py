"""Which parts of a sample's text the drafter proposed, and which the target supplied."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby

Piece = tuple[str, str]
"""A letter, `d` for draft or `t` for target ("" if unknown), and the text that it supplied."""


def iterate_tokens(text: str, ends: Sequence[int], origins: str) -> Iterator[Piece]:
    """The text of each token; joined, they are `text`.

    `ends` and `origins` are columns of Sample. Text after the last end (held back as the possible start of a stop
    string) belongs to the last token. Without both the whole text is one piece of unknown origin.
    """
    if not ends or not origins:
        yield "", text
        return
    start = 0
    for end, letter in zip([*ends[:-1], len(text)], origins, strict=False):
        yield letter, text[start : max(end, start)]
        start = max(end, start)


def cut_pieces(text: str, ends: Sequence[int], origins: str) -> list[Piece]:
    """`text` cut where its origin changes; joined, the pieces are the text. Arguments as in `iterate_tokens`."""
    cut: list[Piece] = []
    for letter, part in iterate_tokens(text, ends, origins):
        if part and cut and cut[-1][0] == letter:
            cut[-1] = (letter, cut[-1][1] + part)
        elif part:
            cut.append((letter, part))
    return cut


def locate_program_origins(program: str, text: Sequence[Piece]) -> list[Piece]:
    """The program in pieces by origin: each line has the origins of the next equal line of the text it came from.

    Lines that extraction added have none. A line whose indentation was repaired keeps the origins of its words.
    """
    whole = "".join(part for _, part in text)
    letters = "".join((letter or " ") * len(part) for letter, part in text)
    starts: defaultdict[str, deque[int]] = defaultdict(deque)
    at = 0
    for line in whole.split("\n"):
        words = line.strip()
        starts[words].append(at + line.find(words))
        at += len(line) + 1
    marks, reached, at = "", 0, 0
    for line in program.split("\n"):
        words = line.strip()
        places = starts[words] if words else deque[int]()
        while places and places[0] < reached:
            places.popleft()
        if places:
            start, indent = places.popleft(), line.find(words)
            reached = start + len(words)
            before = max(start - indent, 0)
            marks += letters[before:start] if whole[before:start] == line[:indent] else " " * indent
            marks += letters[start : reached + len(line) - indent - len(words) + 1]
        at += len(line) + 1
        marks = marks.ljust(at)
    cut = [(letter.strip(), len(list(run))) for letter, run in groupby(marks[: len(program)])]
    ends = list(accumulate(length for _, length in cut))
    return [(letter, program[end - length : end]) for (letter, length), end in zip(cut, ends, strict=True)]
