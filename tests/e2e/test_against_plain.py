"""A completion against plain decoding in a real browser: one streams after the other; then both replay."""

from __future__ import annotations

import re
import threading

import pytest
from playwright.sync_api import expect

from tests.e2e.looks import DARK, DARK_PHONE, PHONE, PHONE_RULES, SCREEN
from tests.fakes import StreamingEngine
from tests.thorough import thorough

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
    page.goto(live + "/complete")
    expect(page.locator("#f-prompt")).to_be_hidden()  # the editor has taken its place
    page.get_by_label("Prompt", exact=True).fill('def add(a, b):\n    """Sum."""\n')
    page.get_by_text("Tests (optional)").click()
    page.get_by_label("Test", exact=True).fill(test)
    page.get_by_label("Samples").fill("2")
    page.get_by_label("Against plain decoding").check()
    page.get_by_role("button", name="Complete", exact=True).click()
    page.wait_for_url(re.compile(r"/complete/[0-9a-f-]{36}$"))


def seconds_on(page, side: str) -> float:
    return float(page.locator(f'[data-live="{side}"] [data-clock]').inner_text().removesuffix(" s"))


def hold_clock(page) -> None:
    """Lets the page's time pass only by `page.clock.run_for`: a replay of seconds may be over before a test sees it."""
    page.clock.install(time=0)
    page.clock.pause_at(1)


LONGEST_MS = 60_000
CONCLUSION = "Speculative finished its first answer in 0.1 s, plain in 0.8 s: 8.0 times as fast."


def test_speculative_streams_then_races_again_beside_plain_and_a_sentence_concludes(live, engines, page):
    engines["none"].hold = threading.Event()
    for engine in engines.values():
        engine.rest = threading.Event()
    start(page, live)
    page.locator('[data-live="Speculative"] [data-text]').filter(has_text="ret").first.wait_for()
    engines["sibling"].rest.set()
    page.locator(f'[data-live="Speculative"] {ENDED}').first.wait_for()  # it has ended and plain has not begun
    expect(page.locator(f'[data-live="Plain"] {ENDED}')).to_have_count(0)
    expect(page.locator(".race-answer")).not_to_contain_text("first answer")
    engines["none"].hold.set()
    page.locator('[data-live="Plain"] [data-text]').filter(has_text="ret").first.wait_for()
    engines["none"].rest.set()
    page.locator(".race-answer").filter(has_text=CONCLUSION).wait_for()
    expect(page.locator(f'[data-live="Plain"] {ENDED}')).to_have_count(2)
    expect(page.get_by_role("button", name="Replay")).to_be_visible()
    assert [seconds_on(page, "Speculative"), seconds_on(page, "Plain")] == [0.2, 1.6]
    hold_clock(page)
    page.reload()
    page.get_by_role("button", name="Pause").wait_for()  # it plays by itself, to its end
    page.clock.run_for(LONGEST_MS)
    page.get_by_role("button", name="Replay").wait_for()
    assert page.locator(".lane.unended").count() == 0


@pytest.mark.thorough
def test_the_replay_is_steered_by_keyboard(site, browser):
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(address_of(site))
    page.locator("#replay:not([hidden])").wait_for()
    time = page.locator("[data-time]")
    assert page.locator(".lane.unended").count() == 0  # nothing moves unasked
    ended = page.locator(ENDED).first.inner_html()
    tokens = page.locator("[data-tokens]").all_inner_texts()
    time.focus()
    page.keyboard.press("Home")
    assert [seconds_on(page, "Speculative"), seconds_on(page, "Plain")] == [0, 0]
    assert page.locator("[data-tokens]").all_inner_texts() == ["0", "0"]
    assert page.locator(".lane.unended").count() == page.locator(ENDED).count()
    assert page.locator(".unwritten").count() > 0
    page.keyboard.press("PageUp")
    assert seconds_on(page, "Plain") == seconds_on(page, "Speculative") > 0
    page.keyboard.press("End")
    assert page.locator(".lane.unended").count() == 0
    assert page.locator(ENDED).first.inner_html() == ended
    assert page.locator("[data-tokens]").all_inner_texts() == tokens
    context.close()


def test_a_pause_holds_the_clock(site, page):
    hold_clock(page)
    page.goto(address_of(site))
    page.clock.run_for(500)
    page.get_by_role("button", name="Pause").click()
    clock = page.locator('[data-live="Plain"] [data-clock]')
    held = clock.inner_text()
    page.clock.run_for(500)
    assert clock.inner_text() == held
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(500)
    assert clock.inner_text() != held


def test_a_completion_of_its_own_is_replayed_when_asked(site, page):
    hold_clock(page)
    page.goto(f"{site.url}/complete/{site.runs['completion']}")
    replay = page.get_by_role("button", name="Replay")
    expect(replay).to_be_visible()
    assert page.locator(".lane.unended").count() == 0
    replay.click()
    page.locator(".lane.unended").first.wait_for()
    page.get_by_role("button", name="Pause").wait_for()
    text = page.get_by_label("Sample 0, replayed")
    text.focus()  # a text that scrolls is reached by the keyboard
    expect(text).to_be_focused()


def test_a_race_cancelled_in_the_middle_keeps_what_speculative_has(live, engines, page):
    engines["none"].hold = threading.Event()
    start(page, live)
    page.locator(f'[data-live="Speculative"] {ENDED}').first.wait_for()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.locator('[data-live="Plain"]').get_by_text("Cancelled.").wait_for()
    page.locator(".race-answer").filter(has_text="No result: plain decoding was cancelled.").wait_for()
    expect(page.locator(f'[data-live="Speculative"] {ENDED}')).to_have_count(2)


def test_without_a_script_a_race_has_its_sentence_its_programs_and_the_raw_texts(site, bare_page):
    bare_page.goto(address_of(site))
    expect(bare_page.locator(".race-answer")).to_contain_text("first answer")
    expect(bare_page.locator("#replay")).to_be_hidden()
    expect(bare_page.get_by_label(re.compile("^Program of sample")).first).to_be_visible()
    raw = bare_page.get_by_label(re.compile("^Raw text of sample")).first
    expect(raw).to_be_hidden()
    bare_page.get_by_text("Raw text", exact=False).first.click()
    expect(raw).to_be_visible()


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("race", SCREEN),
        pytest.param("race", PHONE_RULES, marks=pytest.mark.thorough),
        *(pytest.param(name, look, marks=pytest.mark.thorough) for name in ("race",) for look in (DARK, DARK_PHONE)),
        thorough("hostile", PHONE),
    ],
    ids=str,
)
def test_accessible_and_inside_the_window(site, browser, name, look):
    page = look.open(browser)
    page.emulate_media(reduced_motion="reduce")
    page.goto(address_of(site, hostile=name == "hostile"))
    page.locator("#replay:not([hidden])").wait_for()
    time = page.locator("[data-time]")
    time.evaluate("(time) => { time.value = time.max * 0.6; time.dispatchEvent(new Event('input')); }")
    assert page.title() != "owned"
    assert look.faults(page) == []
    page.context.close()


def address_of(site, *, hostile: bool = False) -> str:
    return f"{site.url}/complete/{site.runs['hostile completion' if hostile else 'speculative']}"
