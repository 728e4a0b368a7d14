"""Grids and presets: every combination that says something, each once, and a sentence for each of the others."""

from __future__ import annotations

import math

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from app.core.errors import BadInputError
from app.studies import grid
from app.studies.grid import build_grid
from app.studies.schemas import MAX_ARMS, ArmSpec, StudySpec

SMALL, BIG = "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"
REMOTE = "openai:m@http://localhost:1/v1"
AXES = {
    "target": st.sampled_from([SMALL, BIG, REMOTE]),
    "drafter": st.sampled_from(["none", "ngram", "sibling"]),
    "n": st.sampled_from([1, 2, 4]),
    "draft_length": st.sampled_from(["bass", "goodput"]),
    "temperature": st.sampled_from([0.0, 0.2]),
    "top_p": st.sampled_from([0.5, 1.0]),
}


def lists(axis: str):
    return st.lists(AXES[axis], min_size=1, max_size=3, unique=True)


@given(values=st.fixed_dictionaries({"target": lists("target")}, optional={a: lists(a) for a in AXES if a != "target"}))
def test_every_combination_is_an_arm_or_a_sentence_and_no_two_arms_decode_alike(values):
    combinations = math.prod(map(len, values.values()))
    try:
        made = build_grid(values)
    except BadInputError as error:  # too few, too many, or what a remote target refuses everywhere
        event(str(error.field))
        return
    assert 2 <= len(made.arms) <= MAX_ARMS
    assert len(made.arms) + len(made.left_out) == combinations
    assert len(set(made.arms)) == len(made.arms)
    for arm in made.arms:
        assert all(getattr(arm, axis) in given for axis, given in values.items() if arm.target != REMOTE)
    plain = [(a.target, a.n, a.temperature, a.top_p) for a in made.arms if a.drafter == "none"]
    assert len(plain) == len(set(plain))  # without a drafter, no option of drafting makes an arm
    StudySpec(arms=made.arms)


def test_what_one_target_refuses_is_left_out_and_what_all_refuse_is_an_error():
    made = build_grid({"target": [SMALL, REMOTE], "drafter": ["none", "ngram"]})
    assert [(arm.target, arm.drafter) for arm in made.arms] == [(SMALL, "none"), (SMALL, "ngram"), (REMOTE, "none")]
    (sentence,) = made.left_out
    assert sentence.startswith(f"target {REMOTE}, drafter ngram is left out: drafter is 'ngram': a remote target")
    with pytest.raises(BadInputError, match="n is 0: "):
        build_grid({"target": [SMALL], "n": [0, 1, 2]})


def test_values_are_counted_before_they_are_multiplied():
    with pytest.raises(BadInputError, match="make 1000000 combinations"):
        build_grid({"target": [SMALL], "n": range(1000), "max_tokens": range(1000)})
    with pytest.raises(BadInputError, match="make 33 arms: give fewer of them, 32 arms at most"):
        build_grid({"target": [SMALL], "n": range(1, 34)})


@pytest.fixture
def cached(monkeypatch):
    """Sets which models are in the cache."""

    def put(*references: str) -> None:
        monkeypatch.setattr(grid, "list_cached_references", lambda: frozenset(references))

    put(SMALL)
    return put


def arms_of(name: str, *targets: str, **values) -> list[tuple]:
    return [(arm.target, arm.drafter, arm.n) for arm in grid.build_preset_arms(name, targets, values).arms]


def test_bass_is_the_experiment_of_the_paper(cached):
    assert arms_of("bass", SMALL) == [(SMALL, "none", 1), (SMALL, "sibling", 1), (SMALL, "none", 8),
                                      (SMALL, "sibling", 8)]  # fmt: skip
    assert arms_of("samples", SMALL) == [(SMALL, "sibling", n) for n in (1, 2, 4, 8, 16)]


def test_drafters_takes_a_cached_draft_model_of_the_family(cached):
    assert [drafter for _, drafter, _ in arms_of("drafters", BIG)] == ["none", "ngram", "sibling", SMALL]
    assert [drafter for _, drafter, _ in arms_of("drafters", SMALL)] == ["none", "ngram", "sibling"]
    cached()
    assert [drafter for _, drafter, _ in arms_of("drafters", BIG)] == ["none", "ngram", "sibling"]
    assert len(arms_of("drafters", "hf:owner/name")) == 3


def test_models_takes_the_cached_ones_unless_some_are_named(cached):
    with pytest.raises(BadInputError, match="the cache has 1 model, two or more") as refused:
        grid.build_preset_arms("models", (), {})
    assert refused.value.field == "target"
    cached(SMALL, BIG)
    assert arms_of("models") == [(SMALL, "sibling", 8), (BIG, "sibling", 8)]
    assert arms_of("models", BIG, "smollm2-135m") == [(BIG, "sibling", 8), ("smollm2-135m", "sibling", 8)]


def test_further_values_multiply_a_preset_but_for_those_it_sets(cached):
    assert len(arms_of("bass", SMALL, BIG, temperature=[0.2, 0.8])) == 16
    with pytest.raises(BadInputError, match="n is set by the preset bass") as refused:
        grid.build_preset_arms("bass", [SMALL], {"n": [2]})
    assert refused.value.field == "n"
    with pytest.raises(BadInputError, match="needs a model"):
        grid.build_preset_arms("bass", (), {})
    with pytest.raises(BadInputError, match="did you mean bass"):
        grid.build_preset_arms("bas", [SMALL], {})


@pytest.mark.parametrize("name", grid.PRESETS)
def test_every_preset_makes_a_study(cached, name):
    cached(SMALL, BIG)
    made = grid.build_preset_arms(name, [] if grid.PRESETS[name].takes_cached_models else [SMALL], {})
    assert all(isinstance(arm, ArmSpec) for arm in made.arms)
    assert made.left_out == ()
