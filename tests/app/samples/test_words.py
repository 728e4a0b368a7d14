"""Words of samples: what identifiers, expressions and unusual characters become, and what keeps the index small."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from app.samples import words
from app.samples.words import fold, label, within_limit, words_in


def test_identifiers_stay_whole_and_expressions_fall_into_their_names():
    assert words_in(["list_runs(foo.bar[0], -1e5)"]) == ["list_runs", "foo", "bar", "0", "1e5"]


def test_upper_and_lower_case_are_the_same_and_each_word_stands_once():
    assert words_in(["IndexError indexerror", "INDEXERROR ÄRGER"]) == ["indexerror", "ärger"]


@given(st.text())
def test_folding_keeps_every_character_in_its_place(text):
    folded = fold(text)
    assert len(folded) == len(text)
    assert all(small in (large, large.lower()) for small, large in zip(folded, text, strict=True) if large != "Σ")


@given(st.text())
def test_a_word_holds_nothing_that_either_database_takes_for_syntax(text):
    for word in [*words_in([text]), label("verdict", text)]:
        assert re.fullmatch(r"§?\w+", word), word
        assert len(word) <= words.LONGEST_WORD


def test_no_text_holds_a_label():
    mark = label("verdict", "passed")
    assert mark not in words_in([mark, f"x {mark} y"])


def test_the_words_of_one_task_fit_into_its_index():
    found = within_limit(words_in([" ".join(f"ünique_{i}" for i in range(200_000))]))
    assert len(" ".join(found).encode()) <= words.LARGEST_INDEX
    assert found[0] == "ünique_0"
