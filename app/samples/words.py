"""The words by which samples are found. Python finds them, so that both databases index and find the same ones."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

LONGEST_WORD = 100  # characters; longer ones are indexed by their beginning
LARGEST_INDEX = 500_000  # bytes of one task's words; PostgreSQL stores a tsvector of at most 1 MB
_WORD = re.compile(r"\w+")
# No letter, digit or underscore, so it begins no word of a text; and SQLite's tokenizer "ascii" keeps it in a word.
_LABEL = "§"


def fold(text: str) -> str:
    """The text in lower case and with the same length, so that a position in one is the same position in the other."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := c.lower()) == 1 else c for c in text)


def words_in(texts: Iterable[str]) -> list[str]:
    """The different words of the texts in lower case, in the order of their first position.

    A word is a run of letters, digits and underscores: `list_runs` is one, `foo.bar(x[0])` holds `foo`, `bar`, `x` and
    `0`. A line that stands in several texts is read once, since the samples of a task have most lines in common.
    """
    lines = dict.fromkeys(line for text in texts for line in text.split("\n"))
    return list(dict.fromkeys(word[:LONGEST_WORD] for word in _WORD.findall(fold("\n".join(lines)))))


def label(kind: str, value: str) -> str:
    """A word for a property such as a verdict or a task: it is indexed beside the words of texts and equals none."""
    return f"{_LABEL}{kind}_{hashlib.sha256(value.encode()).hexdigest()[:16]}"


def within_limit(words: Iterable[str]) -> list[str]:
    """The first words that fit into the index of one task."""
    kept, size = [], 0
    for word in words:
        size += len(word.encode()) + 1
        if size > LARGEST_INDEX:
            break
        kept.append(word)
    return kept
