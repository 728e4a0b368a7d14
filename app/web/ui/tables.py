"""Tables of text: the command line prints them, pages show them, reports hold them as Markdown, files as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.web.ui.display import escape_plain


class ArmName(str):
    """The name of a configuration, in a sentence or in a cell; a page makes it a link to its run."""

    __slots__ = ()
    is_arm = True


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table with its title, one line that says how to read it, and the text of every cell."""

    title: str
    note: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def format_markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as GitHub's Markdown; its cells are Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, ["---"] * len(headings), *rows))


def escape_markdown(text: str) -> str:
    """The text on one line, with the characters that Markdown or HTML would read escaped."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(text.split()))


def fence_markdown(command: str) -> str:
    """A command as a block of code, which is read as it stands."""
    longest = max(map(len, re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}console\n{command}\n{fence}"


def quote_markdown(text: str) -> str:
    """Text of unknown origin as a code span: nothing in it is markup, a link or a mention."""
    one_line = re.sub(r"\s+", " ", escape_plain(text)).strip() or " "
    return "`" + one_line.replace("`", "\N{MODIFIER LETTER GRAVE ACCENT}").replace("|", "\\|") + "`"


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(rows: Iterable[Iterable[object]]) -> str:
    """The rows as lines. Text that a spreadsheet would run as a formula gets an apostrophe in front."""
    out = io.StringIO()
    csv.writer(out).writerows(
        ["'" + one if isinstance(one, str) and one.startswith(_FORMULA) else one for one in row] for row in rows
    )
    return out.getvalue()
