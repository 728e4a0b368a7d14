"""The pages of trained drafters in a real browser: both widths, both themes, axe, hostile names, without JavaScript."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.app.world import open_world
from tests.e2e.looks import in_all_looks
from tests.e2e.screenshots import served
from tests.head_records import TARGET, write_head

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</h1><script>document.title='owned'</script><b>\u202e\x1b[31m" + "very-long-" * 12
EMPTY = {"match": [], "curve": [], "speeds": [], "data": {}, "hours": 0.0}
PAGES = ("/models", f"/models/drafters/{TARGET}", "/models/drafters/smollm2-135m")


@pytest.fixture
def url(tmp_path, monkeypatch, migrated):
    """The address of a service whose cache holds a trained drafter, and an imported one with hostile texts."""
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    write_head(tmp_path / "cache")
    write_head(tmp_path / "cache", "smollm2-135m", source=HOSTILE, sha256=HOSTILE, **EMPTY)
    world = open_world(tmp_path, migrated)
    with served(world.app) as address:
        yield address
    world.context.database.dispose()


@in_all_looks
def test_pages_fit_and_satisfy_axe(url, browser, look):
    look.check_pages(browser, [url + path for path in PAGES])


def test_the_table_of_models_leads_to_a_drafter_without_javascript(url, bare_page):
    bare_page.goto(url + "/models")
    bare_page.get_by_role("region", name="Trained drafters").get_by_role("link", name=TARGET).click()
    expect(bare_page.get_by_role("heading", level=1)).to_have_text(f"Trained drafter of {TARGET}")
    expect(bare_page.get_by_role("region", name="Where it helps")).to_contain_text("1.50 ×")
