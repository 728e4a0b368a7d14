"""Completion in another language: the editor and the answer are coloured by its grammar."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(30_000)
    yield context.new_page()
    context.close()


def test_a_completion_in_javascript_is_highlighted_as_javascript(live, page):
    page.goto(live + "/complete")
    expect(page.locator("#f-prompt")).to_be_hidden()  # the editor has taken its place
    page.get_by_label("Prompt", exact=True).fill("function add(a, b) {\n")
    keyword = page.locator(".cm-line span", has_text=re.compile("^function$"))
    expect(keyword).to_have_count(0)  # in Python it is a name
    page.get_by_label("Language").select_option("javascript")
    expect(keyword).to_have_count(1)
    page.get_by_label("Samples").fill("1")
    page.get_by_role("button", name="Complete", exact=True).click()
    page.wait_for_url(re.compile(r"/complete/[0-9a-f-]{36}"))
    page.get_by_text("1 of 1 finished within").wait_for()
    page.reload()
    expect(page.get_by_label("Language")).to_have_value("javascript")
    program = page.get_by_label("Program of sample 0")
    expect(program.locator("span.k", has_text="return")).to_be_visible()
    expect(program).to_contain_text("return a + b")
