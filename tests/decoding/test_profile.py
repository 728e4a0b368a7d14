"""The draft-length table: Su et al.'s model is recovered from data that follow it, stored, found and used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from decoding.draft_length.policies import TableLength
from decoding.draft_length.profiles import LengthMeasurement, Profile, find_profile
from decoding.engine import Engine
from decoding.request import Request, RequestError

KEY = {"target": "t", "drafter": "d"}


def measured(c: float = 0.9, g: float = 0.55) -> list[LengthMeasurement]:
    """A world that follows the model: verifying one more token of a batch of b costs b units."""
    return [
        LengthMeasurement(b, s, c * s**g if s else 0.0, 0.002 * s, 0.1 + 0.004 * b * s)
        for b in (1, 4, 16)
        for s in (0, 1, 2, 4, 8)
    ]


def test_the_model_is_recovered() -> None:
    profile = Profile.fit(KEY, measured())
    assert (profile.c, profile.g) == pytest.approx((0.9, 0.55))
    assert [fit.slope_s for fit in profile.fits] == pytest.approx([0.004, 0.016, 0.064])
    assert [fit.step_s for fit in profile.fits] == pytest.approx([0.002] * 3)


def test_the_best_length_falls_as_the_batch_grows() -> None:
    lengths = [fit.best for fit in Profile.fit(KEY, measured()).fits]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_a_drafter_that_is_never_worth_it_is_switched_off() -> None:
    dear = [replace(m, verify_s=0.1 + 0.2 * m.length) for m in measured()]
    assert {fit.best for fit in Profile.fit(KEY, dear).fits} == {0}


def test_between_batch_sizes_the_nearest_entry_counts() -> None:
    policy = TableLength(Profile.fit(KEY, measured()))
    by_size = {n: policy.choose_limit(n, n) for n in (1, 3, 4, 7, 16, 60)}
    assert by_size[3] == by_size[4] == by_size[7]
    assert by_size[60] == by_size[16]


def test_a_stored_profile_is_found_by_its_key_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path))
    profile = Profile.fit(KEY, measured())
    profile.save()
    assert find_profile(KEY) == profile
    assert find_profile({**KEY, "drafter": "other"}) is None


def test_without_a_profile_the_command_that_makes_one_is_named(
    engine: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path))
    made = engine(drafter="sibling", draft_length="table")
    with pytest.raises(RequestError, match="bassline bench profile --target tiny --drafter sibling"):
        made.generate(Request("def f"))
    Profile.fit(made.profile_key, measured()).save()
    assert made.generate(Request("def f", max_new_tokens=5)).samples[0].text
