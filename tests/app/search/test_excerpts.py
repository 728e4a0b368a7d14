"""Excerpts: which text and which lines a search shows, and what is marked in them."""

from __future__ import annotations

from app.search.excerpts import AROUND, LONGEST_MATCH, excerpt, fits
from app.search.terms import parse


def shown(texts: dict[str, str], typed: str) -> list[str]:
    """The parts with the marked matches in brackets."""
    return ["".join(f"[{t}]" if marked else t for t, marked in part) for part in excerpt(texts, parse(typed)).parts]


def test_all_terms_of_one_text_are_marked_in_the_lines_with_their_first_places():
    program = "def f(x):\n    y = x[0]\n    z = y\n    return sorted(y)\n"
    assert shown({"program": program}, "x[0] sorted") == ["y = [x[0]]", "return [sorted](y)"]


def test_every_place_in_a_shown_line_is_marked_once():
    assert shown({"raw": "a b a ab\na"}, '"a b" a') == ["[a b] [a] ab"]


def test_the_text_with_the_most_terms_is_shown():
    texts = {"program": "value = 1", "verdict_detail": "KeyError: 'value'"}
    assert excerpt(texts, parse("value")).where == "program"
    assert excerpt(texts, parse("value KeyError")).where == "verdict_detail"


def test_terms_may_stand_in_different_texts_of_one_sample_but_a_phrase_in_one():
    texts = {"program": "return items", "verdict_detail": "IndexError: out of range"}
    assert fits(texts, parse("items IndexError"))
    assert not fits(texts, parse('"items IndexError"'))


def test_long_lines_and_long_places_are_cut():
    text = "x" * 5000 + " needle " + "y" * 5000 + " needle\n"
    (part,) = shown({"raw": text}, "needle")
    assert len(part) < 2 * AROUND + 20
    spread = "a" + " " * 100_000 + "b"
    (part,) = shown({"raw": spread}, '"a b"')
    assert len(part) <= LONGEST_MATCH + 2 * AROUND


def test_marks_stand_where_they_are_in_the_text_even_after_unusual_letters():
    assert shown({"raw": "İİİ ẞ needle"}, "NEEDLE") == ["İİİ ẞ [needle]"]
