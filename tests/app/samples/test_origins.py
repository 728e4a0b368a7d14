"""The text of a sample by where it came from."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.samples.origins import cut_pieces, locate_program_origins
from app.web.ui.display import highlight_source

TOKENS = st.lists(st.tuples(st.text(max_size=5), st.sampled_from("dt")), max_size=30)


@given(TOKENS, st.text(max_size=4))
def test_pieces_join_to_the_text_and_alternate(tokens, held_back):
    text = "".join(part for part, _ in tokens) + held_back
    ends = [sum(len(part) for part, _ in tokens[: i + 1]) for i in range(len(tokens))]
    found = cut_pieces(text, ends, "".join(letter for _, letter in tokens))
    assert "".join(part for _, part in found) == text
    assert all(a[0] != b[0] for a, b in pairwise(found))
    assert all(part for _, part in found)


def test_the_letters_are_those_of_the_tokens():
    assert cut_pieces("return x + 1", [6, 8, 10, 12], "tddt") == [("t", "return"), ("d", " x +"), ("t", " 1")]


def test_a_sample_whose_ends_were_not_kept_is_one_piece_of_unknown_origin():
    assert cut_pieces("text", [], "dd") == [("", "text")]


def test_highlighting_by_origin_changes_no_character_and_nothing_without_it():
    program = "def f(x):\n    return '<b>' + x\n"
    coloured = highlight_source(program, [("t", "def f(x"), ("d", "):\n    return '<b"), ("t", ">' + x\n")])
    assert "from-d" in coloured
    assert re.sub(r"<[^>]+>", "", coloured) == re.sub(r"<[^>]+>", "", highlight_source(program))


@given(TOKENS, st.text(max_size=30))
def test_pieces_of_any_program_join_to_it(tokens, program):
    found = locate_program_origins(program, [(letter, part) for part, letter in tokens])
    assert "".join(part for _, part in found) == program


def test_a_line_of_the_program_has_the_origins_of_its_words_and_an_added_line_has_none():
    text = [("t", "def f(x):\n  retu"), ("d", "rn x + 1\n"), ("t", "f(2)")]
    program = "import os\n\ndef f(x):\n    return x + 1\n"
    assert locate_program_origins(program, text) == [
        ("", "import os\n\n"),
        ("t", "def f(x):\n"),
        ("", "    "),
        ("t", "retu"),
        ("d", "rn x + 1\n"),
    ]
