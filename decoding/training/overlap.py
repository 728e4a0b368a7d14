"""Keeps evaluated tasks out of training data: a text that shares ten words in a row with a task is dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

N_WORDS = 10
_WORD = re.compile(r"\w+")


class OverlapFilter:
    """Knows the ten-word sequences of all evaluated tasks; case, spaces and punctuation do not count."""

    def __init__(self, tasks: Iterable[str]) -> None:
        """`tasks` are the texts to keep out: prompts, solutions and tests."""
        self._known = {gram for task in tasks for gram in _hash_grams(task)}

    def shares(self, text: str) -> bool:
        """Return whether a text has ten words in a row in common with a task."""
        return any(gram in self._known for gram in _hash_grams(text))


def _hash_grams(text: str) -> Iterator[int]:
    words = [word.lower() for word in _WORD.findall(text)]
    for start in range(len(words) - N_WORDS + 1):
        yield hash(tuple(words[start : start + N_WORDS]))
