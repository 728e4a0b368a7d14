"""A race in a real browser: A streams, then B, then both are replayed on one clock."""

from __future__ import annotations

import re
import threading

import pytest
from playwright.sync_api import expect

from tests.e2e.looks import DARK, DARK_PHONE, PHONE, PHONE_RULES, SCREEN
from tests.fakes import StreamingEngine

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ENDED = "[data-replay]"


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(30_000)
    page = context.new_page()
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    context.close()
    assert not faults


@pytest.fixture
def engines(live_service):
    """By drafter: plain decoding takes eight times as long as drafts by siblings."""
    made = {"sibling": StreamingEngine(), "none": StreamingEngine(pace=8.0)}
    live_service.ctx.load_engine = lambda config, on_progress: made[config.drafter]
    return made


def start(page, live, *, test: str = "assert add(1, 2) == 3") -> None:
    page.goto(live + "/complete/race")
    expect(page.locator("#f-prompt")).to_be_hidden()  # the editor has taken its place
    page.get_by_label("Prompt", exact=True).fill('def add(a, b):\n    """Sum."""\n')
    page.get_by_text("Tests (optional)").click()
    page.get_by_label("Test", exact=True).fill(test)
    page.get_by_label("Samples").first.fill("2")
    assert page.locator("#f-b_drafter").input_value() == "none"
    page.get_by_role("button", name="Start the race").click()
    page.wait_for_url(re.compile(r"/complete/race/[0-9a-f-]{36}/[0-9a-f-]{36}$"))


def test_a_streams_then_b_then_both_are_replayed(live, engines, page):
    engines["none"].hold = threading.Event()
    start(page, live)
    page.locator('[data-live="A"] [data-text]').filter(has_text="ret").first.wait_for()
    page.locator(f'[data-live="A"] {ENDED}').first.wait_for()  # A has ended and B has not begun
    assert page.locator(f'[data-live="B"] {ENDED}').count() == 0
    engines["none"].hold.set()
    page.locator('[data-live="B"] [data-text]').filter(has_text="ret").first.wait_for()
    page.locator("#replay:not([hidden])").wait_for()
    answer = "A had its first right answer after 0.1 s, B after 0.8 s."
    page.locator("#race-answer").filter(has_text=answer).wait_for()
    page.locator("#replay [data-status]").filter(has_text=answer).wait_for()  # it plays by itself, to its end
    assert page.locator("[data-play]").inner_text() == "Play"
    shared = page.url
    page.goto(live)
    page.goto(shared)
    page.locator("#replay [data-status]").filter(has_text=answer).wait_for()


@pytest.mark.thorough
def test_the_replay_is_steered_by_keyboard(site, browser):
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(race_address(site))
    page.locator("#replay:not([hidden])").wait_for()
    time, clock = page.locator("[data-time]"), page.locator("#replay [data-clock]")
    length = float(time.get_attribute("max"))
    assert float(time.input_value()) == pytest.approx(length, abs=0.01)  # nothing moves unasked
    assert page.locator(".lane.unended").count() == 0
    ended = page.locator(ENDED).first.locator("[data-text]").inner_html()
    time.focus()
    page.keyboard.press("Home")
    assert clock.inner_text() == "0.00 s"
    assert page.locator(".lane.unended").count() == page.locator(ENDED).count()
    assert page.locator(".unwritten").count() > 0
    page.keyboard.press("ArrowRight")
    assert float(clock.inner_text().removesuffix(" s")) > 0
    assert time.get_attribute("aria-valuetext") == clock.inner_text()
    page.keyboard.press("End")
    assert page.locator(".lane.unended").count() == 0
    assert page.locator(ENDED).first.locator("[data-text]").inner_html() == ended
    page.get_by_label("Speed").select_option("max")
    again = page.get_by_role("button", name="Again")
    again.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Play").wait_for()
    assert float(clock.inner_text().removesuffix(" s")) == pytest.approx(length, abs=0.01)
    context.close()


def test_a_pause_holds_the_clock(site, page):
    page.goto(race_address(site))
    page.get_by_role("button", name="Pause").click()
    clock = page.locator("#replay [data-clock]")
    held = clock.inner_text()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert clock.inner_text() == held
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("held => document.querySelector('#replay [data-clock]').value !== held", arg=held)


def test_a_race_cancelled_in_the_middle_keeps_what_a_has(live, engines, page):
    engines["none"].hold = threading.Event()
    start(page, live)
    page.locator(f'[data-live="A"] {ENDED}').first.wait_for()
    page.get_by_role("button", name="Cancel the race").click()
    page.locator('[data-live="B"]').get_by_text("Cancelled.").wait_for()
    page.locator("#race-answer").filter(
        has_text="A had its first right answer after 0.1 s; B was cancelled."
    ).wait_for()
    expect(page.locator(f'[data-live="A"] {ENDED}')).to_have_count(2)


def test_a_second_model_that_cannot_be_loaded_is_shown_so(live_service, page):
    def load(config, on_progress):
        if config.drafter == "none":
            raise OSError("No such file")
        return StreamingEngine()

    live_service.ctx.load_engine = load
    start(page, live_service.url)
    page.locator('[data-live="B"]').get_by_text("cannot be loaded: OSError: No such file").wait_for()
    page.locator("#race-answer").filter(has_text="; B failed.").wait_for()
    expect(page.locator(f'[data-live="A"] {ENDED}')).to_have_count(2)


def test_without_a_script_the_race_is_a_table_of_times(site, browser):
    context = browser.new_context(viewport={"width": 390, "height": 800}, java_script_enabled=False)
    page = context.new_page()
    page.goto(race_address(site))
    expect(page.get_by_role("row", name=re.compile("First right answer"))).to_be_visible()
    expect(page.locator("#race-answer")).to_be_visible()
    expect(page.locator("#replay")).to_be_hidden()
    expect(page.locator(".lane-text").first).to_be_visible()
    context.close()


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("race", SCREEN),
        pytest.param("race", PHONE_RULES, marks=pytest.mark.thorough),
        ("form", SCREEN),
        *(
            pytest.param(name, look, marks=pytest.mark.thorough)
            for name in ("race", "form")
            for look in (DARK, DARK_PHONE)
        ),
        ("hostile", PHONE),
    ],
    ids=str,
)
def test_accessible_and_inside_the_window(site, browser, name, look):
    page = look.open(browser)
    page.emulate_media(reduced_motion="reduce")
    page.goto(site.url + "/complete/race" if name == "form" else race_address(site, hostile=name == "hostile"))
    if name != "form":
        page.locator("#replay:not([hidden])").wait_for()
        time = page.locator("[data-time]")
        time.evaluate("(time) => { time.value = time.max * 0.6; time.dispatchEvent(new Event('input')); }")
    assert page.title() != "owned"
    assert look.faults(page) == []
    page.context.close()


def race_address(site, *, hostile: bool = False) -> str:
    names = ("hostile completion", "hostile completion") if hostile else ("completion", "second completion")
    return "{}/complete/race/{}/{}".format(site.url, *(site.runs[name] for name in names))
