"""Load tests from the page: the example in one click, and a button that measures this machine and can be cancelled."""

from __future__ import annotations

import sys

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from app.capacity import measuring, reference

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FAKE = """
import json, os, pathlib, signal, sys, time
from app.capacity import service
from app.capacity.schemas import LoadTestSpec
from app.commands import common
from tests.load_tests import load_test

def say(line): print(line, file=sys.stderr, flush=True)
signal.signal(signal.SIGTERM, signal.default_int_handler)
say("together at 0.5/s: 3 of 30 sent, 1 settled; about 61 s of windows left")
try:
    while not pathlib.Path(os.environ["FAKE_GO"]).exists():
        time.sleep(0.02)
except KeyboardInterrupt:
    pass
for name in ("together", "alone"):
    body = LoadTestSpec.model_validate(load_test(f"mine, {name}", arm=name))
    say(f"stored: /capacity/{service.store(common.opened_context(), body)} of `bassline serve`")
"""
"""What `bassline bench load` says and stores, without measuring anything."""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """The program that the button starts. It ends when the file `fake` exists."""
    go = tmp_path / "go"
    monkeypatch.setenv("FAKE_GO", str(go))
    monkeypatch.setattr(measuring, "PROGRAM", (sys.executable, "-c", FAKE))
    return go


def start(live: str, page) -> None:
    page.goto(f"{live}/capacity")
    page.get_by_label("Requests arrive for").select_option(label="20 s per rate: about 5 minutes")
    page.get_by_role("button", name="Start the load test").click()
    expect(page.get_by_role("region", name="is running")).to_contain_text("3 of 30 sent, 1 settled.")


def test_the_button_measures_with_progress_and_leads_to_the_result(live_service, page, fake):
    other = page.context.new_page()
    other.goto(f"{live_service.url}/capacity")
    start(live_service.url, page)
    running = page.get_by_role("region", name="is running")
    expect(running).to_contain_text("About 2 minutes left")
    assert Axe().run(page).violations_count == 0
    expect(page.get_by_role("button", name="Start the load test")).to_have_count(0)
    other.get_by_role("button", name="Start the load test").click()
    expect(other.get_by_role("heading", level=1)).to_have_text("This cannot be done now")
    expect(other.get_by_text("A load test has this machine to itself")).to_be_visible()
    fake.touch()
    page.get_by_role("link", name="See its result").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("together and alone")
    page.get_by_role("link", name="Capacity").first.click()
    expect(page.get_by_role("button", name="Start the load test")).to_be_visible()


def test_a_completion_is_refused_while_a_load_test_has_the_machine_and_taken_afterwards(live_service, page, fake):
    start(live_service.url, page)
    body = {"target": "smollm2-135m", "prompt": "def f():\n"}
    refused = page.request.post(f"{live_service.url}/api/v1/complete", data=body)
    assert refused.status == 429
    assert "a load test has this machine to itself" in refused.json()["detail"]
    page.get_by_role("button", name="Cancel").click()
    notice = page.get_by_text("was cancelled; its finished rates are stored")
    expect(notice).to_be_visible()
    assert page.request.post(f"{live_service.url}/api/v1/complete", data=body).ok


def test_a_failure_is_told_in_the_words_of_the_command(live_service, page, monkeypatch):
    program = "import sys; sys.exit('the sandbox is not available: install bubblewrap')"
    monkeypatch.setattr(measuring, "PROGRAM", (sys.executable, "-c", program))
    page.goto(f"{live_service.url}/capacity")
    page.get_by_role("button", name="Start the load test").click()
    expect(page.get_by_role("alert")).to_contain_text("The sandbox is not available: install bubblewrap")


def test_the_example_is_loaded_by_one_click_and_says_where_it_was_measured(live_service, page):
    assert reference.reference_to_load(live_service.ctx)
    page.goto(f"{live_service.url}/capacity")
    page.get_by_role("button", name="Load the example").click()
    expect(page.get_by_text("Measured elsewhere").first).to_be_visible()
    page.get_by_role("link", name="measure it").first.click()
    expect(page.get_by_role("button", name="Load the example")).to_have_count(0)
    expect(page.get_by_text("Measured elsewhere").first).to_be_visible()
