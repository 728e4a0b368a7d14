"""Daily use: select runs and overlay them, walk through tasks, and lose the server for a while."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_selected_runs_are_overlaid(site, page):
    page.goto(site.url + "/runs")
    bar = page.get_by_role("form", name="Selected runs")
    expect(bar).to_be_hidden()
    for name in ("siblings", "plain"):
        page.get_by_label(f"Select {name}", exact=True).check()
    expect(bar.get_by_text("2 runs selected")).to_be_visible()
    assert Axe().run(page).violations_count == 0
    bar.get_by_role("button", name="Overlay").click()
    expect(page.get_by_role("heading", name="What changed")).to_be_visible()
    assert "csrf" not in page.url


def test_the_arrow_keys_walk_through_the_tasks_of_a_filter_failures_first(site, page):
    page.goto(f"{site.url}/runs/{site.runs['siblings']}?tab=tasks&show=failed")
    page.locator("tbody a.name").nth(1).click()
    expect(page.get_by_text("2 of")).to_contain_text("no sample passed")
    heading = page.get_by_role("heading", level=1)
    second = heading.inner_text()
    page.wait_for_load_state()  # a key pressed before the script has loaded is lost
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("3 of")).to_contain_text("no sample passed")
    assert "show=failed" in page.url
    page.wait_for_load_state()
    page.keyboard.press("ArrowLeft")
    expect(heading).to_have_text(second)


def test_a_page_without_its_server_says_so_and_forgets_it_when_the_server_is_back(site, page):
    page.goto(f"{site.url}/runs/{site.runs['running']}")
    notice = page.get_by_text("Connection lost. Retrying. Last update")
    expect(notice).to_have_count(0)
    page.context.set_offline(True)
    expect(notice).to_be_visible()
    page.context.set_offline(False)
    expect(notice).to_have_count(0)
