"""What people ask of the reference studies takes a few clicks, and every page gives the same answer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def first_page(reference_site, page) -> Page:
    page.goto(reference_site)
    return page


def at_budget(page: Page, budget: str) -> None:
    field = page.get_by_label("Users wait", exact=True)
    field.fill(budget)
    field.press("Enter")
    page.wait_for_url(re.compile(rf"budget={budget}(&|$)"))
    expect(page.get_by_text(f"{budget} s").first).to_be_visible()


def study(page: Page) -> None:
    name = "Regular decoding, speculation, and both in batches"
    page.get_by_role("link", name="Runs and studies").click()
    page.get_by_role("link", name="Studies", exact=True).click()
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_which_model_and_configuration_at_3_seconds(first_page):
    at_budget(first_page, "3")
    expect(first_page.get_by_role("heading", level=1)).to_contain_text(
        "qwen2.5-coder-0.5b is the best so far: it answers 58 % right within 3 s (95 % interval: 39 to 76 %) with int8"
    )
    first_page.locator(".answer .from").get_by_role("link").first.click()
    expect(first_page.get_by_role("heading", level=1)).to_have_text("Which model on two cores")
    row = first_page.get_by_role("row", name=re.compile("^3 s"))
    expect(row.get_by_role("cell").first).to_have_text("qwen2.5-coder-0.5b, int8")


@pytest.mark.thorough
def test_how_much_time_a_share_of_the_tasks_takes(first_page):
    study(first_page)
    times = first_page.get_by_role("region", name="Time for a share of the tasks")
    expect(times.get_by_role("row", name=re.compile("^60 %"))).to_contain_text("sibling, n = 8")
    expect(times.get_by_role("row", name=re.compile("^80 %"))).to_contain_text("not reached within 14 s")


@pytest.mark.thorough
def test_what_one_more_second_is_worth(first_page):
    study(first_page)
    expect(first_page.locator(".scores").first).to_contain_text("+5 points")


def test_what_speculation_gains(first_page):
    study(first_page)
    first_page.get_by_role("link", name="Details", exact=True).click()
    gains = first_page.get_by_role("region", name="What speculation gains")
    expect(gains.get_by_role("row", name=re.compile("14 s")).first).to_contain_text("+37 (+16 to +58)")


@pytest.mark.thorough
def test_more_than_two_runs_task_by_task(first_page):
    first_page.get_by_role("link", name="Leaderboard").click()
    first_page.get_by_role("link", name="Compare task by task").first.click()
    expect(first_page.get_by_role("heading", level=1)).to_have_text("4 runs over 82 tasks of humaneval")
    expect(first_page.get_by_role("table").first).to_be_visible()
