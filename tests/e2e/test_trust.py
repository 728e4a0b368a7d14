"""The first click of an empty service, what a disturbed clock means for its run, and errors that lead on."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.looks import in_all_looks

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def load_results(url: str, page) -> None:
    page.goto(url)
    page.get_by_role("button", name="Load the reference studies").click()
    expect(page.get_by_role("link", name="Try my code")).to_be_visible()
    expect(page.get_by_role("button", name="Load the reference studies")).to_have_count(0)


def test_the_first_click_fills_the_first_screen(live, page):
    load_results(live, page)
    assert page.url == f"{live}/"
    expect(page.get_by_role("heading", level=1)).to_contain_text("within 5 s")


def test_a_mark_of_the_clock_leads_to_what_follows_for_its_run(reference_site, page):
    page.goto(f"{reference_site}/studies")
    page.get_by_role("link", name="Clock disturbed in 5 of 5 arms").click()
    page.get_by_role("table").get_by_role("link", name="Clock disturbed").first.click()
    expect(page).to_have_url(re.compile(r"tab=timing.*#clock$"))
    explained = page.locator("#clock")
    expect(explained).to_be_in_viewport()
    expect(explained).to_contain_text("10 % is the limit")
    expect(explained).to_contain_text("Pass@First and Pass@All within a budget are therefore at most")
    page.get_by_role("link", name="a study", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("How many samples")
    page.goto(f"{reference_site}/runs")
    page.get_by_role("link", name="Clock disturbed").first.click()
    expect(page.locator("#clock")).to_be_in_viewport()
    page.get_by_role("link", name="repeat the run").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("New run")


@in_all_looks
def test_pages_fit_and_satisfy_axe(live, reference_site, browser, look):
    page, found = look.open(browser), []
    page.goto(live)
    found += look.faults(page)
    page.goto(f"{reference_site}/runs")
    page.get_by_role("link", name="Clock disturbed").first.click()
    expect(page.locator("#clock")).to_be_visible()
    found += look.faults(page)
    page.goto(f"{reference_site}/nope")
    found += look.faults(page)
    page.context.close()
    assert not found, "\n".join(found)
