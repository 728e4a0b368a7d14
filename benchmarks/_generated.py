"""Blocks of a Markdown page that a program writes, between two comments that name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


class NoBlockError(ValueError):
    """The page has no such block."""


def read(page: Path, block: str) -> str:
    """Return the text of a block. Raises NoBlockError."""
    start, end = _bounds(page.read_text("utf-8"), page, block)
    return page.read_text("utf-8")[start:end].strip("\n")


def write(page: Path, block: str, text: str) -> None:
    """Replace the text of a block. Raises NoBlockError."""
    whole = page.read_text("utf-8")
    start, end = _bounds(whole, page, block)
    page.write_text(f"{whole[:start]}\n\n{text}\n\n{whole[end:]}", "utf-8")


def markdown(rows: Sequence[Mapping[str, object]]) -> str:
    """Return a table whose columns are the keys of the rows."""
    lines = [[*rows[0]], ["---"] * len(rows[0]), *[[str(value) for value in row.values()] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  ", "| ") for line in lines)


def _bounds(whole: str, page: Path, block: str) -> tuple[int, int]:
    first, last = f"<!-- {block}: generated -->", f"<!-- {block}: end -->"
    if whole.count(first) != 1 or whole.count(last) != 1:
        raise NoBlockError(f"{page.name} needs one line {first} and one line {last}")
    return whole.index(first) + len(first), whole.index(last)
