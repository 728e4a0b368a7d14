"""The short labels of runs: what tells them apart, in the characters that a chart has room for."""

from __future__ import annotations

import pytest

from app.runs.labels import ROOM, shorten_labels
from app.runs.options import get_options
from app.runs.schemas import RunOptions

OPTIONS = list(get_options(RunOptions))
LONG = "hf:organisation/model-with-a-long-name"


def labels(names: list[str], **differing: list[str]) -> list[str]:
    """The labels of runs with these names, whose other settings are equal."""
    words = [
        tuple(differing[option][run] if option in differing else f"{option} x" for option in OPTIONS)
        for run in range(len(names))
    ]
    return shorten_labels(names, words)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["nightly"], ["nightly"]),
        (["plain", "drafted"], ["plain", "drafted"]),
        (["org/model, none, n = 1", "org/model, ngram, n = 1"], ["no drafter", "ngram"]),
        (["a/small, n = 1", "b/large, n = 4"], ["small, n = 1", "large, n = 4"]),
        (["one, two", "three"], ["one, two", "three"]),
    ],
)
def test_what_all_names_share_is_left_out(names, expected):
    assert labels(names) == expected


def test_names_that_begin_alike_give_way_to_the_settings_that_differ():
    found = labels([LONG] * 2 + ["other"], drafter=["ngram"] * 3, n=["n = 1", "n = 4", "n = 4"])
    assert found == ["n = 1, ngram", "n = 4, ngram", "other"]


def test_pairs_that_differ_in_the_same_setting_keep_what_tells_the_pairs_apart():
    """Every arm of a study over two models and two weights; the names begin alike in the room of a label."""
    models, weights = ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"], ["dense", "int8"]
    arms = [(model, weight) for model in models for weight in weights]
    names = [f"study: {model}, sibling, n = 8, weights {weight}" for model, weight in arms]
    expected = [f"{model}, {weight}" for model, weight in arms]
    settings = {"target": [model for model, _ in arms], "weights": [weight for _, weight in arms]}
    assert labels(names, **settings) == expected
    assert labels([name.removeprefix("study: ") for name in names]) == expected


def test_repetitions_are_told_apart_by_their_seed_and_copies_by_a_number():
    assert labels([LONG] * 2, drafter=["ngram"] * 2, seed=["seed 1", "seed 2"]) == ["seed 1, ngram", "seed 2, ngram"]
    copies = labels([LONG] * 12)
    assert len({label[:ROOM] for label in copies}) == 12
