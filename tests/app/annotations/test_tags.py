"""What is a tag, and the sentence for what is none."""

from __future__ import annotations

import pytest

from app.annotations.tags import LONGEST_TAG, parse_tag, parse_tags
from app.core.errors import BadInputError


@pytest.mark.parametrize("text", ["a", "nightly", "2026-11-23", "team/speed", "v1.2_rc:3", "x" * LONGEST_TAG])
def test_letters_digits_and_five_signs_make_a_tag(text):
    assert parse_tag(text) == text


def test_a_tag_is_stored_in_lower_case():
    assert parse_tag("Nightly/H100") == "nightly/h100"


@pytest.mark.parametrize("text", ["", "two words", "a,b", "ä", "x" * (LONGEST_TAG + 1), "<b>", "a\n", "tag\0", "²"])
def test_anything_else_is_refused_with_the_field_and_the_remedy(text):
    with pytest.raises(BadInputError, match=r"^tag is .*: give 1 to 40 letters from a to z, digits") as caught:
        parse_tag(text)
    assert caught.value.field == "tag"
    assert len(str(caught.value)) < 200


def test_a_field_of_a_form_takes_several_separated_by_blanks_or_commas():
    assert parse_tags(" nightly, H100  a/b\n") == ("nightly", "h100", "a/b")


def test_an_empty_field_is_refused():
    with pytest.raises(BadInputError, match="tag is empty: give at least one"):
        parse_tags(" , ")
