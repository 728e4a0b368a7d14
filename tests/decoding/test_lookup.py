"""Lookup drafts continue the longest known match, by majority, from the row's own text or from its siblings'."""

import pytest

from decoding.drafters.lookup import AnswerIndex, LookupDrafter, NgramDrafter, SiblingDrafter, SuffixAutomaton
from decoding.request import Request
from decoding.state.clock import Clock
from decoding.state.proposal import Match
from decoding.state.request_state import RequestState
from decoding.state.row import Row
from decoding.state.text import TextStream


class Letters:
    """A tokenizer of one letter per token."""

    def decode(self, tokens: list[int], **_: object) -> str:
        return "".join(map(chr, tokens))


def ids(text: str) -> list[int]:
    return [ord(c) for c in text]


def row(text: str, *, earlier_answers: bool = False) -> Row:
    tokens = ids(text)
    request = Request("x", earlier_answers=earlier_answers)
    state = RequestState(0, request, list(tokens), 99, Clock(None))
    return Row(state.samples, state, tokens, TextStream(Letters(), tokens, ()))


def started(drafter: LookupDrafter, rows: list[Row]) -> LookupDrafter:
    for slot, each in enumerate(rows):
        drafter.start(slot, each, source=0 if slot else None)
    return drafter


def draft(text: str, length: int = 8) -> str:
    """What a row proposes that holds only this text."""
    (tokens,) = started(SiblingDrafter(AnswerIndex()), [row(text)]).propose([row(text)], [length]).tokens
    return "".join(map(chr, tokens))


def test_the_longest_match_wins() -> None:
    assert draft("abcX.bcY.bcY.cZ.cZ.cZ.abc", 1) == "X"


def test_the_majority_wins_among_equal_matches() -> None:
    assert draft("abXY;abZZ?abXW!ab", 1) == "X"


def test_the_latest_place_wins_a_tie() -> None:
    assert draft("abX;abY?ab", 1) == "Y"


def test_a_draft_ends_where_the_known_text_ends() -> None:
    assert draft("abcd.ab", 8) == "cd.ab"
    assert draft("abcd", 8) == ""


def test_a_match_longer_than_any_n_gram_decides() -> None:
    assert draft("0123456789X!_23456789Y!_23456789Y!-0123456789", 1) == "X"


def test_the_evidence_is_the_match_of_each_token_and_its_share_of_the_places() -> None:
    rows = [row("abXY;abXZ?abc!ab")]
    proposal = started(SiblingDrafter(AnswerIndex()), rows).propose(rows, [3])
    assert proposal.tokens == [ids("XZ?")]
    assert proposal.evidence == [[Match(2, 2 / 3), Match(3, 1 / 2), Match(4, 1.0)]]


def test_siblings_see_each_other_and_loners_do_not() -> None:
    for kind, expected in ((SiblingDrafter, "xyz"), (NgramDrafter, "")):
        rows = [row("p:"), row("p:")]
        drafter = started(kind(AnswerIndex()), rows)
        rows[0].tokens += ids("qxyz")
        rows[1].tokens += ids("q")
        drafter.observe(rows, [0, 0])
        drafted = drafter.propose(rows, [3, 3]).tokens[1]
        assert "".join(map(chr, drafted)) == expected


def test_a_fork_without_sharing_does_not_see_its_parents_future() -> None:
    rows = [row("p:")]
    drafter = started(NgramDrafter(AnswerIndex()), rows)
    rows.append(row("p:"))
    drafter.fork(0, rows[1])
    rows[0].tokens += ids("qxyz")
    rows[1].tokens += ids("q")
    drafter.observe(rows, [0, 0])
    assert drafter.propose(rows, [3, 3]).tokens[1] == []


def test_slots_follow_their_rows_when_one_is_dropped() -> None:
    rows = [row("p:ab"), row("p:cd"), row("p:ef")]
    drafter = started(NgramDrafter(AnswerIndex()), rows)
    for r in rows:
        r.tokens += ids("!") + r.tokens[2:3]
    drafter.observe(rows, [0, 0, 0])
    drafter.drop(0)
    assert drafter.propose([rows[2], rows[1]], [1, 1]).tokens == [ids("f"), ids("d")]


def test_a_prompt_is_indexed_once_and_no_text_again_at_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    extend, n_extended = SuffixAutomaton.extend, 0

    def counted(self: SuffixAutomaton, state: int, token: int) -> int:
        nonlocal n_extended
        n_extended += 1
        return extend(self, state, token)

    monkeypatch.setattr(SuffixAutomaton, "extend", counted)
    for kind, n_prompts in ((SiblingDrafter, 1), (NgramDrafter, 2)):
        n_extended = 0
        rows = [row("prompt"), row("prompt")]
        drafter = started(kind(AnswerIndex()), rows)
        rows.append(row("prompt"))
        drafter.fork(0, rows[2])
        for each in rows:
            each.tokens += ids("xyz")
        drafter.observe(rows, [0, 0, 0])
        assert n_extended == n_prompts * len("prompt") + 3 * len("xyz")


def answered(drafter: LookupDrafter, prompt: str, answer: str, *, earlier_answers: bool = True) -> str:
    """What is proposed after the prompt; then the answer is written and the row ends."""
    rows = [row(prompt, earlier_answers=earlier_answers)]
    started(drafter, rows)
    (tokens,) = drafter.propose(rows, [8]).tokens
    rows[0].tokens += ids(answer)
    drafter.observe(rows, [0])
    drafter.drop(0)
    return "".join(map(chr, tokens))


@pytest.mark.parametrize("kind", [NgramDrafter, SiblingDrafter])
def test_requests_that_allow_it_see_the_answers_to_earlier_ones(kind: type[LookupDrafter]) -> None:
    answers = AnswerIndex()
    assert answered(kind(answers), "what is it?", "abcdef") == ""
    assert answered(kind(answers), "but what is it?", "abcxyz") == "abcdef", "another batch, the same end of a prompt"
    assert answered(kind(answers), "is it?", "", earlier_answers=False) == ""
    assert answered(kind(AnswerIndex()), "is it?", "") == "", "another engine"


def test_a_requests_own_text_is_preferred_to_an_equally_long_match_elsewhere() -> None:
    answers = AnswerIndex()
    answered(SiblingDrafter(answers), "?", "abX")
    assert answered(SiblingDrafter(answers), "abY;zab", "") == "Y;zab"
    answered(SiblingDrafter(answers), "?", "zabX")
    assert answered(SiblingDrafter(answers), "abY;zab", "").startswith("X")


def test_stored_answers_are_bounded_and_the_latest_are_kept() -> None:
    answers = AnswerIndex(most_tokens=100)
    for n in range(200):
        answered(SiblingDrafter(answers), "?", f"{n:03} is {chr(1000 + n)}.")
        assert sum(each.n_tokens for each in answers.open()) < 100 + 200 + 16
    assert answered(SiblingDrafter(answers), "!", "") == ""
    assert answered(SiblingDrafter(answers), "199 is ", "").startswith(chr(1199))
    assert not answered(SiblingDrafter(answers), "001 is ", "").startswith(chr(1001))
