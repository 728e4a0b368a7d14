"""What extraction gives in every language, and the parts of an answer that may be code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

CodeLocation = Literal["completion", "fenced", "open_fence", "function", "empty"]
Reading = Literal["continuation", "blocks", "function", "body", "literal"]
VERSION = "extraction-6"
"""Of answers in Python."""
TREE_VERSION = "extraction-tree-3"
"""Of answers in other languages."""
MAX_FENCES = 6
"""Fence lines that are combined in every way; more than these are nested examples, not answers."""
MAX_CHARS = 50_000
"""Longest text for which other readings than the literal one are tried: repairs take more than linear time."""

FENCE = re.compile(r" {0,3}(?:```+|~~~+)[^`]*")
_BARE_FENCE = re.compile(r"\s*(?:```+|~~~+)\w*\s*")


@dataclass(frozen=True, slots=True)
class Extraction:
    """A complete program, "" where there is no code.

    `location` says where the code was. `completion`: the text continues the prompt. `function`: it restates the
    function. `fenced`: it was between fences. `open_fence`: a fence was opened, in the prompt or the text, and not
    closed. `empty`: there was no code.
    """

    program: str
    location: CodeLocation
    version: str = VERSION
    reading: Reading = "literal"  # the way of reading that won


def has_no_code(text: str) -> bool:
    """Whether a text is blank but for fences."""
    return all(_BARE_FENCE.fullmatch(line) for line in text.split("\n") if line.strip())


def iterate_blocks(text: str, opened: bool) -> Iterator[tuple[CodeLocation | None, str]]:
    """Parts of the text that may be code, each with the fences around it (None: no fences).

    A fence line may open a block, close one, or lie inside one (in a docstring). A wrong guess does not compile, so
    every combination is offered, nearest fences first. `opened`: the prompt opened a fence.
    """
    lines = text.split("\n")
    fences = [i for i, line in enumerate(lines) if FENCE.fullmatch(line)][:MAX_FENCES]
    for start in [-1, *fences] if opened else fences:
        for end in [f for f in fences if f > start]:
            yield "fenced", "\n".join(lines[start + 1 : end]) + "\n"
        yield "open_fence", "\n".join(lines[start + 1 :])
    if not opened:
        yield None, text
