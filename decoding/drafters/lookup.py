"""Drafts from text already seen: the row's own text (`ngram`), the texts of all samples of its request (`sibling`), and
the answers to earlier requests where a request allows it.

The longest end of a row's text that was continued before is its match, and the draft is what followed it most often.
Suffix automata know the match of each row after each token (SAM-Decoding, arXiv 2411.10666), so a draft needs no model
and no search, only microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from decoding.attention.prefill import Prefill
from decoding.drafters.automaton import ROOT, SuffixAutomaton
from decoding.drafters.base import Drafter
from decoding.state.proposal import Match, Proposal
from decoding.state.row import Row
from decoding.state.row_lists import take_out

MAX_TOKENS = 8192
"""A generation of texts begins when the one before has this many tokens; two are kept, in about 5 MB."""


class AnswerIndex:
    """Bounded: texts are kept in two generations of automata, of which the older one is dropped for a new one.

    A request reads and extends both until it ends, so the older one knows what the younger one knows.
    """

    def __init__(self, most_tokens: int = MAX_TOKENS) -> None:
        self._most_tokens = most_tokens
        self._generations = [SuffixAutomaton()]

    def open(self) -> tuple[SuffixAutomaton, ...]:
        """Return the automata for a new row to be looked up in and added to, the older one first."""
        if self._generations[-1].n_tokens >= self._most_tokens:
            self._generations = [self._generations[-1], SuffixAutomaton()]
        return tuple(self._generations)


# An answer is stored with so many tokens of its prompt, to be found where the same prompt ends.
_LEAD = 16


@dataclass(slots=True)
class _Text:
    """A row's text: its state in its request's automaton, and in the automata of earlier answers."""

    automata: tuple[SuffixAutomaton, ...]
    states: list[int]
    prompt: int  # the state in its request's automaton when it began
    n_added: int

    def add(self, tokens: list[int]) -> None:
        """Add the tokens that the row has taken."""
        new = tokens[self.n_added :]
        self.n_added = len(tokens)
        for at, automaton in enumerate(self.automata):
            self.states[at] = _extend(automaton, self.states[at], new)

    def draft(self, length: int) -> tuple[list[int], list[Match]]:
        """Return up to `length` tokens that followed the longest match, and the match of each."""
        matches = [automaton.match(state) for automaton, state in zip(self.automata, self.states, strict=True)]
        best = max(
            zip(self.automata, matches, strict=True),
            key=lambda each: each[0].length[each[1]],  # of equals the first, the request's own
        )
        return _follow(*best, length)


def _follow(automaton: SuffixAutomaton, state: int, length: int) -> tuple[list[int], list[Match]]:
    """Return up to `length` tokens that follow the longest text of a state, each with its match."""
    tokens: list[int] = []
    evidence: list[Match] = []
    matched = automaton.length[state]
    while state != ROOT and len(tokens) < length and automaton.next[state]:
        token, state, share = automaton.follower(state)
        tokens.append(token)
        evidence.append(Match(matched, share))
        matched += 1
    return tokens, evidence


def _extend(automaton: SuffixAutomaton, state: int, tokens: Sequence[int]) -> int:
    for token in tokens:
        state = automaton.extend(state, token)
    return state


class LookupDrafter(Drafter):
    """Looks each row up; `shared` gives all rows of a request one automaton, else each has its own.

    `answers` are looked up and extended by the rows of requests that allow it.
    """

    shared: ClassVar[bool]

    def __init__(self, answers: AnswerIndex) -> None:
        self._answers = answers
        self._texts: list[_Text] = []
        self._aside: list[_Text] = []

    def start(self, row_index: int, row: Row, source: int | None) -> Prefill:
        """Index the prompt, once for a request that shares it: a row also sees what its siblings wrote before it."""
        if self.shared and source is not None:
            own, prompt = self._texts[source].automata[0], self._texts[source].prompt
        else:
            own = SuffixAutomaton()
            prompt = _extend(own, ROOT, row.tokens)
        others = self._answers.open() if row.state.request.earlier_answers else ()
        states = [prompt, *(_extend(each, ROOT, row.tokens[-_LEAD:]) for each in others)]
        self._texts[row_index : row_index + 1] = [_Text((own, *others), states, prompt, len(row.tokens))]
        return Prefill()

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Return what followed each row's longest match, nothing where there is none."""
        drafts = [text.draft(length) for text, length in zip(self._texts, lengths, strict=True)]
        return Proposal([tokens for tokens, _ in drafts], [evidence for _, evidence in drafts])

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Add the tokens that the rows have taken."""
        for text, row in zip(self._texts, rows, strict=True):
            text.add(row.tokens)

    def fork(self, row_index: int, row: Row) -> None:
        """Continue from the row's states, which are the new row's as well."""
        text = self._texts[row_index]
        own, *others = text.automata
        if not self.shared:  # the parent's automaton will hold the parent's later text, which only a sibling may see
            own = own.copy()
        self._texts.append(replace(text, automata=(own, *others), states=text.states.copy()))

    def drop(self, row_index: int) -> None:
        """Move the last row's text; what a finished row wrote stays in the automata that others share."""
        take_out(self._texts, row_index)

    def set_aside(self, row_index: int) -> None:
        """Set the row's text aside."""
        self._aside.append(take_out(self._texts, row_index))

    def put_back(self) -> None:
        """Append that row's text."""
        self._texts.append(self._aside.pop())


class NgramDrafter(LookupDrafter):
    """Prompt lookup: a row sees the prompt and its own text."""

    shared = False


class SiblingDrafter(LookupDrafter):
    """A row sees the prompt and the texts of all samples of its request, which often repeat each other."""

    shared = True
