"""Drafts from text already seen: the row's own text (n-gram lookup) or the texts of all samples of the task (siblings).

The last tokens of a row are looked up in the indexed text; the continuation of the longest match is proposed, by
majority where several places match (the consensus of arXiv 2503.05330). Needs no model and costs microseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from decoding.attention.prefill import Prefill
from decoding.state.proposal import Proposal
from decoding.state.row import Row

LONGEST_MATCH = 6
_MOST_PLACES = 16

Place = tuple[list[int], int]
"""A text and the position in it that follows a match."""


class TextIndex:
    """The places of each n-gram of 1 to LONGEST_MATCH tokens in texts that may grow."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, ...], list[Place]] = {}

    def add(self, text: list[int], start: int) -> None:
        """Index the n-grams that end at `start` or later. The text is kept by reference and may grow afterwards."""
        for end in range(start + 1, len(text) + 1):
            for n in range(1, min(LONGEST_MATCH, end) + 1):
                places = self._places.setdefault(tuple(text[end - n : end]), [])
                places.append((text, end))
                if len(places) > _MOST_PLACES:
                    del places[0]

    def continuation(self, text: list[int], length: int) -> tuple[list[int], int]:
        """Return up to `length` tokens that followed the longest known match of the end of `text`, and its length."""
        for n in range(min(LONGEST_MATCH, len(text)), 0, -1):
            places = [p for p in self._places.get(tuple(text[-n:]), ()) if p[1] < len(p[0])]
            if places:
                return _consensus(places, length), n
        return [], 0


def _consensus(places: list[Place], length: int) -> list[int]:
    tokens: list[int] = []
    while places and len(tokens) < length:
        # The latest place comes first, so that it wins a tie.
        votes = Counter(text[at] for text, at in reversed(places))
        token = votes.most_common(1)[0][0]
        tokens.append(token)
        places = [(text, at + 1) for text, at in places if text[at] == token and at + 1 < len(text)]
    return tokens


class LookupDrafter:
    """Looks each row up in an index; `shared` gives all rows of a request one index, else each has its own."""

    draws_tokens = False
    shared: ClassVar[bool]

    def __init__(self) -> None:
        self._index: list[TextIndex] = []
        self._indexed: list[int] = []

    def start(self, slot: int, row: Row, source: int | None) -> Prefill:
        """Index the prompt; with a shared index a row also sees what its siblings wrote before it."""
        known = self._index[source] if self.shared and source is not None else self._own_index(row)
        self._index[slot : slot + 1] = [known]
        self._indexed[slot : slot + 1] = [len(row.tokens)]
        return Prefill()

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Return each row's continuation of its longest match, none where nothing matches."""
        matches = [
            index.continuation(row.tokens, k) if k else ([], 0)
            for index, row, k in zip(self._index, rows, lengths, strict=True)
        ]
        return Proposal([tokens for tokens, _ in matches], [length for _, length in matches])

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Index the tokens that the rows have taken."""
        for slot, row in enumerate(rows):
            self._index[slot].add(row.tokens, self._indexed[slot])
            self._indexed[slot] = len(row.tokens)

    def fork(self, slot: int, row: Row) -> None:
        """Index the new row from here on; its text so far is indexed with its parent."""
        self._indexed.append(self._indexed[slot])
        # The parent's index will hold the parent's later text, which only a sibling may see.
        self._index.append(self._index[slot] if self.shared else self._own_index(row))

    def drop(self, slot: int) -> None:
        """Move the last row's state; a finished sibling's text stays in the common index."""
        index, indexed = self._index.pop(), self._indexed.pop()
        if slot < len(self._index):
            self._index[slot], self._indexed[slot] = index, indexed

    @staticmethod
    def _own_index(row: Row) -> TextIndex:
        index = TextIndex()
        index.add(list(row.tokens), 0)
        return index


class NgramDrafter(LookupDrafter):
    """Prompt lookup: a row sees the prompt and its own text."""

    shared = False


class SiblingDrafter(LookupDrafter):
    """A row sees the prompt and the texts of all samples of its request, which often repeat each other."""

    shared = True
