"""Lookup drafts continue the longest known match, by majority, from the row's own text or from its siblings'."""

from decoding.drafters.lookup import LookupDrafter, NgramDrafter, SiblingDrafter, TextIndex
from decoding.request import Request
from decoding.state.clock import Clock
from decoding.state.request_state import RequestState
from decoding.state.row import Row
from decoding.state.text import TextStream


class Letters:
    """A tokenizer of one letter per token."""

    def decode(self, tokens: list[int], **_: object) -> str:
        return "".join(map(chr, tokens))


def ids(text: str) -> list[int]:
    return [ord(c) for c in text]


def index(*texts: str) -> TextIndex:
    made = TextIndex()
    for text in texts:
        made.add(ids(text), 0)
    return made


def continuation(made: TextIndex, text: str, length: int = 8) -> str:
    return "".join(map(chr, made.continuation(ids(text), length)[0]))


def row(text: str) -> Row:
    tokens = ids(text)
    state = RequestState(0, Request("x"), list(tokens), 99, Clock(None))
    return Row(state.samples, state, tokens, TextStream(Letters(), tokens, ()))


def started(drafter: LookupDrafter, rows: list[Row]) -> LookupDrafter:
    for slot, each in enumerate(rows):
        drafter.start(slot, each, source=0 if slot else None)
    return drafter


def test_the_longest_match_wins() -> None:
    assert continuation(index("abcX", "bcY", "cZ"), "..abc", 1) == "X"


def test_the_majority_wins_among_equal_matches() -> None:
    assert continuation(index("abXY", "abZZ", "abXW"), "ab", 1) == "X"


def test_the_latest_place_wins_a_tie() -> None:
    assert continuation(index("abX", "abY"), "ab") == "Y"


def test_a_draft_ends_where_the_known_text_ends() -> None:
    assert continuation(index("abcd"), "ab", 8) == "cd"


def test_the_length_of_the_match_is_its_evidence() -> None:
    assert index("abcd").continuation(ids("zbc"), 4) == (ids("d"), 2)


def test_siblings_see_each_other_and_loners_do_not() -> None:
    for kind, expected in ((SiblingDrafter, "xyz"), (NgramDrafter, "")):
        rows = [row("p:"), row("p:")]
        drafter = started(kind(), rows)
        rows[0].tokens += ids("qxyz")
        rows[1].tokens += ids("q")
        drafter.observe(rows, [0, 0])
        drafted = drafter.propose(rows, [3, 3]).tokens[1]
        assert "".join(map(chr, drafted)) == expected


def test_a_fork_without_sharing_does_not_see_its_parents_future() -> None:
    rows = [row("p:")]
    drafter = started(NgramDrafter(), rows)
    rows.append(row("p:"))
    drafter.fork(0, rows[1])
    rows[0].tokens += ids("qxyz")
    rows[1].tokens += ids("q")
    drafter.observe(rows, [0, 0])
    assert drafter.propose(rows, [3, 3]).tokens[1] == []


def test_slots_follow_their_rows_when_one_is_dropped() -> None:
    rows = [row("p:ab"), row("p:cd"), row("p:ef")]
    drafter = started(NgramDrafter(), rows)
    for r in rows:
        r.tokens += ids("!") + r.tokens[2:3]
    drafter.observe(rows, [0, 0, 0])
    drafter.drop(0)
    assert drafter.propose([rows[2], rows[1]], [1, 1]).tokens == [ids("f"), ids("d")]
