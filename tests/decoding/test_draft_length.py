"""Algorithm 1 of BASS, step by step, and the draft lengths a user may name."""

import pytest

from decoding.config import EngineConfig
from decoding.draft_length import BassLength, FixedLength, Outcome
from decoding.request import RequestError


def outcome(*accepted: int) -> Outcome:
    return Outcome((1,) * len(accepted), (32,) * len(accepted), accepted, (33,) * len(accepted), 0.0, 0.1)


def lengths(*best: int) -> list[int]:
    policy = BassLength()
    seen = [policy.next(8, 8)]
    for accepted in best:
        policy.observe(outcome(0, accepted, 0))
        seen.append(policy.next(8, 8))
    return seen


def test_grows_by_two_while_some_row_takes_its_whole_draft() -> None:
    assert lengths(7, 9, 11) == [7, 9, 11, 13]


def test_never_passes_32() -> None:
    policy = BassLength()
    for _ in range(40):
        policy.observe(outcome(policy.next(1, 1)))
    assert policy.next(1, 1) == 32


def test_shrinks_faster_while_shrinking_repeatedly() -> None:
    # 7 - ceil(7/10) - 0 = 6; then 6 - 1 - 1 = 4; then 4 - 1 - 1 = 2; then 2 - 1 - 1 = 0, but never below 1
    assert lengths(0, 0, 0, 0, 0) == [7, 6, 4, 2, 1, 1]


def test_never_shrinks_below_the_best_row() -> None:
    assert lengths(6, 5) == [7, 6, 5]
    assert lengths(0, 5) == [7, 6, 5]


def test_growth_ends_a_streak_of_shrinking() -> None:
    assert lengths(0, 6, 0) == [7, 6, 8, 7]


def test_from_20_on_the_tenth_counts_more() -> None:
    policy = BassLength()
    policy.k = 21
    policy.observe(outcome(0))
    assert policy.next(1, 1) == 18


def test_fixed_is_fixed() -> None:
    policy = FixedLength(4)
    policy.observe(outcome(0, 0))
    assert [policy.next(1, 1), policy.next(8, 8)] == [4, 4]


@pytest.mark.parametrize("text", ["fixed:", "fixed:33", "fixed:-1", "fixed:x", "magic", ""])
def test_an_unknown_length_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(RequestError, match="goodput, bass, table or fixed:K"):
        EngineConfig(target="x", draft_length=text)
