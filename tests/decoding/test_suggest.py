"""A mistyped name is an error with the name that was probably meant, never something else by accident."""

from __future__ import annotations

import pytest

from decoding.config import EngineConfig, parse_draft_length
from decoding.drafters.registry import parse_drafter
from decoding.request import RequestError
from decoding.suggest import build_advice, find_nearest


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("siblng", "sibling"),
        ("ngrm", "ngram"),
        ("Sibling", "sibling"),
        ("siblng+smollm2-135m", "sibling"),
        ("non", "none"),
        ("smolm2-135m", "smollm2-135m"),
    ],
)
def test_a_mistyped_drafter_is_no_model(text, meant):
    with pytest.raises(RequestError, match=f"drafter is '.*': did you mean {meant}\\? Use none, ngram, sibling"):
        parse_drafter(text)


def test_an_empty_drafter_lists_the_names():
    with pytest.raises(RequestError, match="drafter is '': use none, ngram, sibling"):
        parse_drafter("")


@pytest.mark.parametrize("text", ["smollm2-135m", "hf:owner/name", "./folder", "/models/a+b", "~/model", "a/b.gguf"])
def test_what_may_be_a_model_is_one(text):
    assert parse_drafter(text).model == text


@pytest.mark.parametrize("text", ["eagle", "MODEL", "sibling+eagle", "ngram+sibling", "none+smollm2-135m", "mine"])
def test_an_unknown_word_is_never_taken_for_a_model(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(RequestError, match=r"none, ngram, sibling, trained, MODEL, .*sibling\+MODEL.*smollm2-135m"):
        parse_drafter(text)
    assert parse_drafter("./mine").model == "./mine"


def test_other_words_of_an_engine_are_suggested_too():
    with pytest.raises(RequestError, match=r"did you mean goodput\?"):
        parse_draft_length("godput")
    with pytest.raises(RequestError, match=r"did you mean fixed:K\?"):
        parse_draft_length("fixd:4")
    with pytest.raises(RequestError, match="draft_length is 'fixed:99': use goodput"):
        parse_draft_length("fixed:99")
    with pytest.raises(RequestError, match=r"acceptance is 'coupeld': did you mean coupled\? Use one of"):
        EngineConfig("any", acceptance="coupeld")


def test_case_is_no_mistake_that_hides_a_name_and_long_texts_cost_nothing():
    assert find_nearest("HUMANEVAL", ["humaneval"]) == "humaneval"
    assert find_nearest("x" * 10**6, ["x" * 10**6]) is None
    assert build_advice("zzz", ["abc"], "use abc") == "use abc"
