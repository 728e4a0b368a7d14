"""The texts of an engine's earlier requests, for requests that may be drafted from them."""

from __future__ import annotations

from decoding.drafters.automaton import SuffixAutomaton

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
