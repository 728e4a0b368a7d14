"""What a user types becomes terms: words for the index, and the text that a sample must hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadInputError
from app.samples.words import fold, words_in
from app.search.terms import index_words, parse


def holds(typed: str, text: str) -> bool:
    return all(term.pattern.search(fold(text)) for term in parse(typed))


@pytest.mark.parametrize(
    ("typed", "found", "missed"),
    [
        ("list_runs", "x = list_runs(1)", "x = list_runs_of(1)"),
        ("list", "a list here", "list_runs()"),
        ("foo.bar(", "y = foo.bar(3)", "foo.bart(3)"),
        ("x[0]", "return x[0] + 1", "return max[0]"),
        ('"for i in range"', "for  i\n    in range(3)", "for i in ranges"),
        ('"return None"', "return NONE", "return x\nNone"),
        ('x["a"]', 'x["a"] = 1', "x['a'] = 1"),
        ("a -> b", "def f(a: b) -> c", "a >= b"),
        ("a b", "b, a", "b"),
        ('"Größe ist"', "GRÖSSE GRÖßE IST", "größe"),
    ],
)
def test_a_sample_fits_if_it_holds_the_text_and_not_as_part_of_longer_words(typed, found, missed):
    assert holds(typed, found)
    assert not holds(typed, missed)


@pytest.mark.parametrize("typed", ["->", "( ) [ ]", '""', "*", "&& ||", '"-> :="', "\u202e", "<>"])
def test_a_query_without_a_word_is_refused_in_a_sentence(typed):
    with pytest.raises(BadInputError, match="holds no word, add one"):
        parse(typed)


@pytest.mark.parametrize("typed", ['"list index', 'a "b', '"a"b'])
def test_a_quotation_without_an_end_is_refused_in_a_sentence(typed):
    with pytest.raises(BadInputError, match="missing closing quotation mark"):
        parse(typed)


def test_operators_of_the_databases_are_plain_words():
    terms = parse("NOT a OR b NEAR(c) words:d e* ! & | <-> 'f' --")
    assert index_words(terms) == ["not", "a", "or", "b", "near", "c", "words", "d", "e", "f"]


@given(st.text(max_size=300))
def test_any_text_is_terms_or_a_sentence(typed):
    try:
        terms = parse(typed)
    except BadInputError:
        return
    assert index_words(terms)


@given(st.text(max_size=60), st.text(max_size=20), st.text(max_size=20))
def test_the_index_misses_no_sample_that_holds_the_text(text, before, after):
    """What is checked in a sample is never wider than what the index was asked for."""
    sample = before + " " + text + " " + after
    try:
        terms = parse(text)
    except BadInputError:
        return
    if all(term.pattern.search(fold(sample)) for term in terms):
        assert set(index_words(terms)) <= set(words_in([sample]))
