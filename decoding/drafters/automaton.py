"""A suffix automaton over texts of tokens that grow: the index of SAM-Decoding (arXiv 2411.10666)."""

from __future__ import annotations

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
