"""The table of trained drafters in a real browser: both widths, both themes, axe, hostile names."""

from __future__ import annotations

import pytest

from tests.app.world import open_world
from tests.e2e.looks import in_all_looks
from tests.e2e.screenshots import served
from tests.head_records import write_head

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</h1><script>document.title='owned'</script><b>\u202e\x1b[31m" + "very-long-" * 12


@pytest.fixture
def url(tmp_path, monkeypatch, migrated):
    """The address of a service whose cache holds a trained drafter, and an imported one with hostile texts."""
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    write_head(tmp_path / "cache")
    write_head(tmp_path / "cache", "smollm2-135m", source=HOSTILE, match=[], hours=0.0)
    world = open_world(tmp_path, migrated)
    with served(world.app) as address:
        yield address
    world.context.database.dispose()


@in_all_looks
def test_the_page_fits_and_satisfies_axe(url, browser, look):
    look.check_pages(browser, [url + "/models"])
