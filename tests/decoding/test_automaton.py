"""The suffix automaton finds what a search through all texts finds: matches, followers, counts and order."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from decoding.drafters.lookup import ROOT, SuffixAutomaton

Steps = list[tuple[int, int, bool]]
# Each step adds a token to one of the texts, or first copies that text: (which, token, whether to copy).
steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=40)


def grown(made: Steps) -> tuple[SuffixAutomaton, list[tuple[list[int], int]], list[tuple[tuple[int, ...], int]]]:
    """The automaton, its texts with their states, and each added token as (its text up to it, time)."""
    automaton = SuffixAutomaton()
    texts: list[tuple[list[int], int]] = [([], ROOT)]
    added: list[tuple[tuple[int, ...], int]] = []
    for which, token, copies in made:
        at = which % len(texts)
        text, state = texts[at]
        if copies:
            texts.append((text.copy(), state))
        text.append(token)
        texts[at] = text, automaton.extend(state, token)
        added.append((tuple(text), len(added) + 1))
    return automaton, texts, added


def places(added: list[tuple[tuple[int, ...], int]], part: list[int]) -> list[int]:
    """The times at which a token completed `part`."""
    return [time for text, time in added if text[len(text) - len(part) :] == tuple(part)]


@given(steps)
def test_the_match_of_a_text_is_its_longest_suffix_that_was_continued(made: Steps) -> None:
    automaton, texts, added = grown(made)
    for text, state in texts:
        known = [n for n in range(1, len(text) + 1) if any(places(added, [*text[-n:], token]) for token in range(3))]
        assert automaton.length[automaton.match(state)] == max(known, default=0)


@given(steps)
def test_a_match_is_followed_by_what_came_most_often_and_then_by_what_came_last(made: Steps) -> None:
    automaton, texts, added = grown(made)
    for text, state in texts:
        part_state = state
        while (part_state := automaton.match(part_state)) != ROOT:
            part = text[len(text) - automaton.length[part_state] :]
            found = {token: where for token in range(3) if (where := places(added, [*part, token]))}
            best = max(found, key=lambda token: (len(found[token]), found[token][-1]))
            follower, after, share = automaton.follower(part_state)
            assert follower == best
            assert (automaton.count[after], automaton.latest[after]) == (len(found[best]), found[best][-1])
            assert share == len(found[best]) / sum(map(len, found.values()))
            assert set(automaton.next[part_state]) == set(found)
            part_state = automaton.link[part_state]


@given(steps, steps)
def test_a_copy_does_not_see_what_follows(made: Steps, later: Steps) -> None:
    automaton, texts, _ = grown(made)
    copy = automaton.copy()
    before = [(copy.match(state), dict(copy.next[state])) for _, state in texts]
    for which, token, _ in later:
        text, state = texts[which % len(texts)]
        texts[which % len(texts)] = text, automaton.extend(state, token)
    unchanged, texts, _ = grown(made)
    assert before == [(copy.match(state), dict(copy.next[state])) for _, state in texts]
    assert (copy.length, copy.link, copy.count) == (unchanged.length, unchanged.link, unchanged.count)


def test_states_grow_with_the_text_and_no_faster() -> None:
    for text in ([1] * 3000, [1, 2] * 1500, list(range(3000)), [n * n % 7 for n in range(3000)]):
        automaton, state = SuffixAutomaton(), ROOT
        for token in text:
            state = automaton.extend(state, token)
        assert len(automaton.length) <= 2 * len(text)
        assert Counter(automaton.length)[0] == 1
