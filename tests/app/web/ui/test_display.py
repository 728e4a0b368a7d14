"""Verdicts as pages show them."""

from __future__ import annotations

import pytest

from app.web.ui import display
from evaluation.verdicts import Status


def test_every_status_has_a_sign_with_its_own_letter():
    assert set(display.VERDICTS) == set(Status)
    assert len({sign.letter for sign in display.VERDICTS.values()}) == len(Status)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no task is selected", "No task is selected"),
        ("timeout", "Timeout"),
        ("every task: leave one", "Every task: leave one"),
        ("bad.jsonl, line 1", "bad.jsonl, line 1"),
        ("smollm2-135m has no trained drafter", "smollm2-135m has no trained drafter"),
        ("hf:org/name is not cached", "hf:org/name is not cached"),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_it_begins_with_a_name(text, shown):
    assert display.capitalize_sentence(text) == shown
