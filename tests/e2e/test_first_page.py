"""The first page in a browser: what stands above the fold, the slider, a phone, and reading without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.app.world import World, open_world
from tests.e2e.looks import HEIGHT, PHONE, in_all_looks
from tests.e2e.screenshots import served
from tests.e2e.test_pages import shown_budget
from tests.thorough import thorough

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CONTROLS, NUMBERS = 15, 30
"""The most that stand above the fold."""
FOLD = """() => {
  const isAbove = (rect) => rect.width > 0 && rect.height > 0 && rect.bottom > 0 && rect.top < innerHeight;
  const isShown = (element) => isAbove(element.getBoundingClientRect()) &&
    element.checkVisibility({ visibilityProperty: true }) && !element.closest(".visually-hidden");
  const controls = [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary")];
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    if (isAbove(range.getBoundingClientRect()) && isShown(walker.currentNode.parentElement)) {
      texts.push(walker.currentNode.data);
    }
  }
  const fields = [...document.querySelectorAll("input:not([type=hidden], [type=range])")].filter(isShown);
  return { controls: controls.filter(isShown).map((one) => one.outerHTML.slice(0, 90)),
           text: [...texts, ...fields.map((field) => field.value)].join("\\n") };
}"""
NUMBER = re.compile(r"(?<![\w.-])\d[\d.,]*(?![\w-])")  # those in the names of models are no figures
MODELS = (("smollm2-135m", 0.1, 0.8), ("qwen2.5-coder-0.5b", 0.45, 1.7), ("qwen2.5-coder-1.5b", 0.7, 4.0))


def add_study_of_models(world: World) -> None:
    """Three models, two configurations of each, measured here."""
    arms = [
        {"name": f"{target}, n = {n}", "target": target, "n": n, "skill": skill, "pace": pace, "limit": 100,
         "device": "AMD EPYC 7B13, 2 cores"}
        for target, skill, pace in MODELS for n in (1, 4)
    ]  # fmt: skip
    world.add_study(*arms, name="Which model on this machine?")


@pytest.fixture(scope="module", params=["reference studies", "three models"])
def first_page(request, tmp_path_factory, with_reference_studies) -> Iterator[str]:
    """The address of a service with the reference studies, in which three models may have been compared, too."""
    world = open_world(tmp_path_factory.mktemp("first-page"), with_reference_studies)
    if request.param == "three models":
        add_study_of_models(world)
    with served(world.app) as url:
        yield f"{url}/"
    world.context.database.dispose()


def test_few_controls_and_numbers_stand_above_the_fold(first_page, page):
    page.goto(first_page)
    for budget in ("5", "1", "10"):
        page.get_by_label("Users wait").fill(budget)
        shown_budget(page, "Users wait")
        found = page.evaluate(FOLD)
        numbers = NUMBER.findall(found["text"])
        assert 8 <= len(found["controls"]) <= CONTROLS, found["controls"]
        assert 15 <= len(numbers) <= NUMBERS, numbers
    for part in ("h1", "table.models tbody tr >> nth=-1", "figure.chart svg.wide"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= 900, f"{part} ends above the fold"


def test_on_a_phone_it_is_a_screen_and_a_half_and_no_column_is_cut(first_page, page):
    page.set_viewport_size({"width": PHONE.width, "height": HEIGHT})
    page.goto(first_page)
    assert page.evaluate("document.documentElement.scrollHeight") <= 1.5 * HEIGHT
    assert not page.locator(".scroll:has(table.models)").evaluate("part => part.scrollWidth > part.clientWidth")


@pytest.mark.parametrize("path", ["", thorough("leaderboard")])
def test_no_column_is_cut_on_a_wide_screen(first_page, page, path):
    page.goto(first_page + path)
    cut = "parts => parts.filter((part) => part.scrollWidth > part.clientWidth).map((part) => part.ariaLabel)"
    assert page.locator(".scroll:has(table.board)").evaluate_all(cut) == []


def test_the_row_of_a_model_opens_its_details(first_page, page):
    page.goto(first_page)
    row = page.locator("table.models tbody tr").first
    row.locator("summary").click()
    for text in ("tokens/s", "Machine", "drafted by sibling"):
        expect(row.get_by_text(text)).to_be_visible()


@in_all_looks
def test_it_fits_and_satisfies_axe(first_page, browser, look):
    page = look.open(browser)
    page.goto(first_page)
    found = look.faults(page)
    page.locator("table.models summary").first.click()
    found += look.faults(page)
    page.context.close()
    assert not found, "\n".join(found)


def test_the_slider_moves_the_answer_without_a_jump(site, page):
    page.goto(site.url)
    slider, heading = page.get_by_label("Budget per task on a logarithmic scale"), page.locator("h1")
    said, places = {heading.inner_text()}, {round(slider.bounding_box()["y"])}
    for key in ("Home", *["PageUp"] * 10, "End"):
        slider.press(key)
        shown_budget(page, "Users wait")
        said.add(heading.inner_text())
        places.add(round(slider.bounding_box()["y"]))
    for start in ("No model answers right within 0.1 s", "smollm2-135m ", "larger answers "):
        assert any(line.startswith(start) or line.startswith(f"Use {start}") for line in said), said
    assert max(places) - min(places) <= 1, "the slider stays under the pointer"
    page.get_by_role("status").get_by_text("right within 20 s").wait_for()
    page.wait_for_url("**/?budget=20")
    last = heading.inner_text()
    page.reload()
    assert heading.inner_text() == last


def test_a_typed_budget_between_the_positions_of_the_slider_is_shown_too(site, page):
    page.goto(site.url)
    page.get_by_label("Users wait").fill("3.217")
    assert shown_budget(page, "Users wait") == "3.217"
    page.wait_for_url("**/?budget=3.217")
    parts = page.locator("[data-live]")
    said = parts.all_inner_texts()
    assert "right within 3.217 s" in said[0]
    page.reload()
    assert parts.all_inner_texts() == said
    page.get_by_label("Users wait").fill("1e9")
    expect(page.locator("h1")).to_have_text("Measured to 20 s: there is no answer for a longer time")


def test_it_is_read_without_javascript(site, bare_page):
    bare_page.goto(site.url)
    bare_page.get_by_label("Users wait").fill("0.1")
    bare_page.get_by_label("Users wait").press("Enter")
    expect(bare_page.locator("h1")).to_contain_text("No model answers right within 0.1 s over 164 tasks")
    expect(bare_page.locator("table.models th.chosen")).to_have_text("0.1 s")
