"""A completion and a run, live over the real queue and stream, with an engine that takes its time."""

from __future__ import annotations

import re
import threading

import pytest
from playwright.sync_api import expect

from tests.fakes import StreamingEngine

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(30_000)
    yield context.new_page()
    context.close()


def test_a_completion_fills_its_lanes_then_ranks_and_judges(live_service, page):
    engine = StreamingEngine()
    engine.rest = threading.Event()
    live_service.ctx.load_engine = lambda config, on_progress: engine
    page.goto(live_service.url + "/complete")
    expect(page.locator("#f-prompt")).to_be_hidden()  # the editor has taken its place
    page.get_by_label("Prompt", exact=True).fill('def add(a, b):\n    """Sum."""\n')
    page.get_by_text("Tests (optional)").click()
    page.get_by_label("Test", exact=True).fill("assert add(1, 2) == 3")
    page.get_by_label("Samples").fill("3")
    page.get_by_role("button", name="Complete").click()
    page.wait_for_url(re.compile(r"/complete/[0-9a-f-]{36}"))
    lanes = page.locator("[data-lane]")
    expect(lanes).to_have_count(3)
    lanes.last.locator("[data-text]").filter(has_text="ret").wait_for()
    engine.rest.set()
    page.locator(".lane.stop").first.wait_for()
    page.locator(".lane .sq.pass").first.wait_for()
    page.get_by_text("3 of 3 finished within").wait_for()
    expect(page.locator(".lane .sq.wrong")).to_have_count(1)
    assert page.locator(".lane.chosen .place").inner_text() == "ranked 1st"
    expect(page.get_by_text("2 of 3 passed")).to_be_visible()
    wrong, right = page.locator(".lane.wrong .run").first, page.locator(".lane.pass .run").first
    colour = "bar => getComputedStyle(bar).fill"
    assert wrong.evaluate(colour) != right.evaluate(colour)
    page.reload()
    assert "return a + b" in page.get_by_label("Program of sample 0").inner_text()


def test_a_completion_whose_server_is_away_says_so_and_goes_on_when_it_is_back(live_service, page):
    engine = StreamingEngine(hold=threading.Event())
    live_service.ctx.load_engine = lambda config, on_progress: engine
    page.goto(live_service.url + "/complete")
    page.get_by_label("Samples").fill("2")
    page.get_by_role("button", name="Complete", exact=True).click()
    page.wait_for_url(re.compile(r"/complete/[0-9a-f-]{36}"))
    page.context.set_offline(True)
    notice = page.get_by_text("Connection lost. Retrying. Last update")
    expect(notice).to_be_visible()
    engine.hold.set()
    page.context.set_offline(False)
    page.get_by_text("2 of 2 finished within").wait_for()
    expect(notice).to_have_count(0)


def test_a_run_is_followed_from_submission_to_its_figures(live_service, page):
    engine = StreamingEngine(hold=threading.Event())
    live_service.ctx.load_engine = lambda config, on_progress: engine
    page.goto(live_service.url + "/runs/new")
    page.get_by_label("Dataset").select_option("additions")
    page.get_by_label("Samples per task").fill("2")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}"))
    page.get_by_role("group", name="Progress").wait_for()
    engine.hold.set()
    page.get_by_text("Pass against the budget").wait_for()
    page.get_by_role("link", name="Run again with changes").wait_for()
    assert page.get_by_role("group", name="Progress").count() == 0
    tabs = page.get_by_role("navigation", name="Parts of this run")
    top = tabs.bounding_box()["y"]
    assert "100 %" in page.locator(".scores").first.inner_text()
    page.reload()
    assert tabs.bounding_box()["y"] == top, "the progress leaves no gap"
