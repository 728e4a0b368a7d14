"""Two texts line by line: what only one of them has, with some lines around it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

Mark = Literal["-", "+", " "]
CONTEXT = 3
MOST_LINES = 600  # of each text: comparing takes time that grows with the product of both


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of either text (`-` the first, `+` the second) or of both, with its numbers from 1."""

    mark: Mark
    a: int | None
    b: int | None
    text: str


@dataclass(frozen=True, slots=True)
class LineDiff:
    """The changed parts in order, each with its context; none where the texts are equal. `cut`: only the first
    MOST_LINES lines of each text were compared."""

    parts: tuple[tuple[DiffLine, ...], ...]
    cut: bool


def line_diff(a: str, b: str) -> LineDiff:
    """How to turn `a` into `b`."""
    of_a, of_b = a.split("\n"), b.split("\n")
    cut = max(len(of_a), len(of_b)) > MOST_LINES
    of_a, of_b = of_a[:MOST_LINES], of_b[:MOST_LINES]
    if of_a == of_b:
        return LineDiff((), cut)
    matcher = difflib.SequenceMatcher(None, of_a, of_b)
    parts = []
    for group in matcher.get_grouped_opcodes(CONTEXT):
        lines: list[DiffLine] = []
        for tag, a_from, a_to, b_from, b_to in group:
            if tag == "equal":
                both = zip(range(a_from, a_to), range(b_from, b_to), strict=True)
                lines += [DiffLine(" ", i + 1, j + 1, of_a[i]) for i, j in both]
            else:
                lines += [DiffLine("-", i + 1, None, of_a[i]) for i in range(a_from, a_to)]
                lines += [DiffLine("+", None, j + 1, of_b[j]) for j in range(b_from, b_to)]
        parts.append(tuple(lines))
    return LineDiff(tuple(parts), cut)
