"""docs/settings.md is what the settings class says, and explains every variable."""

from __future__ import annotations

import pytest

from app.core.settings import Settings
from tests import settings_page


def test_the_page_is_in_step_with_the_settings():
    assert settings_page.PAGE.read_text() == settings_page.build_page(), "run `python -m tests.settings_page`"


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_says_what_it_means(name):
    field = Settings.model_fields[name]
    assert field.description
    assert "|" not in field.description
    assert f"`BASSLINE_{name.upper()}`|" in settings_page.build_page()
