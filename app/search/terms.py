"""What a user typed, as terms: the words by which the index finds tasks, and the text that a sample must hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.core.errors import BadInputError
from app.samples.words import fold, words_in

# A quote begins a phrase only in front of a term, and ends it only after one: x["a"] is plain text.
_TERM = re.compile(r'"(?P<phrase>.*?)"(?=\s|$)|(?P<plain>\S+)', re.DOTALL)
_WORD_CHARACTER = re.compile(r"\w")


@dataclass(frozen=True)
class Term:
    """A word, an expression such as `foo.bar(`, or a phrase that was quoted.

    A sample fits if it holds the text of the term in upper or lower case, with any spaces and line ends where the term
    has spaces, and not as a part of longer words. `words` are the indexed words that such a sample has.
    """

    text: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]

    def matches(self, folded: str) -> Iterator[tuple[int, int]]:
        """Start and end of each match of the term in a text that `words.fold` made."""
        for match in self.pattern.finditer(folded):
            yield match.span()


def parse(typed: str) -> list[Term]:
    """The terms, each once. Raises BadInputError for a text that can find nothing."""
    terms: dict[str, Term] = {}
    for match in _TERM.finditer(typed):
        plain = match["plain"]
        if plain is not None and plain.startswith('"'):
            raise BadInputError(f"q is {_shown(typed)}: missing closing quotation mark", "q")
        text = " ".join((match["phrase"] if plain is None else plain).split())
        if text:
            terms.setdefault(fold(text), _term(text))
    if not any(term.words for term in terms.values()):
        raise BadInputError(f"q is {_shown(typed)}: it holds no word, add one such as a name or a number", "q")
    return list(terms.values())


def index_words(terms: Sequence[Term]) -> list[str]:
    """The words that a task has if a sample of it fits."""
    return list(dict.fromkeys(word for term in terms for word in term.words))


def _term(text: str) -> Term:
    folded = fold(text)
    parts = r"\s+".join(re.escape(part) for part in folded.split())
    before = r"(?<!\w)" if _WORD_CHARACTER.match(folded[0]) else ""
    after = r"(?!\w)" if _WORD_CHARACTER.match(folded[-1]) else ""
    return Term(text, tuple(words_in([folded])), re.compile(f"{before}{parts}{after}"))


def _shown(typed: str) -> str:
    return repr(typed if len(typed) <= 60 else f"{typed[:60]}…")
