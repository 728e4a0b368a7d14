"""Verdicts as pages show them."""

from __future__ import annotations

from app.ui import display
from evaluation.verdicts import Status


def test_every_status_has_a_sign_with_its_own_letter():
    assert set(display.VERDICTS) == set(Status)
    assert len({sign.letter for sign in display.VERDICTS.values()}) == len(Status)
