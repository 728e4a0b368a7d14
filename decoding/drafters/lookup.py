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


ROOT = 0
"""The state of the empty text."""
# A token counts in at most this many of its contexts, longest first. Only text that repeats itself all the time has
# more, and there the shortest ones decide nothing.
_MOST_CONTEXTS = 64


class SuffixAutomaton:
    """All parts of some texts, each with the tokens that followed it, how often, and when last.

    A text is known by its state, which `extend` takes and returns; it begins with `ROOT`. So texts that begin alike
    share states, and a text may be continued in two ways. A state stands for parts that end at the same places, one the
    suffix of the next; `length` is the length of its longest, and `link` leads to the longest suffix that also ends
    elsewhere. A token is added in O(1), amortized. Looking up needs no search: a text's state and its links are its
    matches.
    """

    def __init__(self) -> None:
        self.n_tokens = 0
        self.length = [0]
        self.link = [-1]
        self.next: list[dict[int, int]] = [{}]
        self.count = [0]
        """The places at which a state's parts end."""
        self.latest = [0]
        """The last one of these, as the number of tokens that had been added."""

    def extend(self, state: int, token: int) -> int:
        """Return the state of the text of `state` with one more token."""
        known = self.next[state].get(token)
        # Where it is known, another text has gone on like this, or holds this one.
        state = self._append(state, token) if known is None else self._split(state, token, known)
        self.n_tokens += 1
        link, count, latest, now = self.link, self.count, self.latest, self.n_tokens
        part = state
        for _ in range(_MOST_CONTEXTS):
            if part <= ROOT:
                break
            count[part] += 1
            latest[part] = now
            part = link[part]
        return state

    def match(self, state: int) -> int:
        """Return the state of the longest suffix of a text that some token has followed; ROOT if there is none."""
        while state > ROOT and not self.next[state]:
            state = self.link[state]
        return state

    def follower(self, state: int) -> tuple[int, int, float]:
        """Return the token that followed a state most often, the latest among equals, the state after it, and its share
        of all tokens that followed."""
        after, count = self.next[state], self.count
        if len(after) == 1:
            token, best = next(iter(after.items()))
            return token, best, 1.0
        latest = self.latest
        token, best = max(after.items(), key=lambda each: (count[each[1]], latest[each[1]]))
        return token, best, count[best] / sum([count[each] for each in after.values()])

    def copy(self) -> SuffixAutomaton:
        """Return an independent copy, with the same states."""
        twin = SuffixAutomaton()
        twin.n_tokens = self.n_tokens
        twin.length, twin.link = self.length.copy(), self.link.copy()
        twin.next = [after.copy() for after in self.next]
        twin.count, twin.latest = self.count.copy(), self.latest.copy()
        return twin

    def _append(self, state: int, token: int) -> int:
        made = self._add(self.length[state] + 1, ROOT, {}, 0, 0)
        while state >= ROOT and token not in self.next[state]:
            self.next[state][token] = made
            state = self.link[state]
        if state >= ROOT:
            self.link[made] = self._split(state, token, self.next[state][token])
        return made

    def _split(self, state: int, token: int, known: int) -> int:
        """Return the state of `state`'s longest part and `token`, apart from longer parts that end at fewer places."""
        length = self.length[state] + 1
        if self.length[known] == length:
            return known
        made = self._add(length, self.link[known], self.next[known].copy(), self.count[known], self.latest[known])
        self.link[known] = made
        while state >= ROOT and self.next[state].get(token) == known:
            self.next[state][token] = made
            state = self.link[state]
        return made

    def _add(self, length: int, link: int, after: dict[int, int], count: int, latest: int) -> int:
        self.length.append(length)
        self.link.append(link)
        self.next.append(after)
        self.count.append(count)
        self.latest.append(latest)
        return len(self.length) - 1
