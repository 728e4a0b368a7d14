"""In a real browser: the slider, the forms, keyboard, layout at two widths, and axe in light and dark."""

from __future__ import annotations

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from app.leaderboard import board
from app.leaderboard.columns import COLUMNS
from tests.e2e.looks import in_all_looks
from tests.thorough import thorough

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = {
    "first page": "/",
    "leaderboard": "/leaderboard",
    "runs": "/runs",
    "runs by name": "/runs?sort=name&name=nothing-like-this",
    "run": "/runs/{siblings}",
    "tasks": "/runs/{siblings}?tab=tasks&show=failed",
    "failures": "/runs/{siblings}?tab=failures",
    "timing": "/runs/{siblings}?tab=timing",
    "config": "/runs/{siblings}?tab=config",
    "task": "/runs/{siblings}/tasks/HumanEval/3",
    "broken": "/runs/{broken}",
    "stopped": "/runs/{stopped}",
    "hostile": "/runs/{hostile}/tasks/HumanEval/0",
    "running": "/runs/{running}",
    "unjudged": "/runs/{unjudged}",
    "completion": "/complete/{completion}",
    "hostile completion": "/complete/{hostile completion}",
    "hostile comparison": "/overlay/{hostile},{siblings}",
    "new": "/runs/new",
    "complete": "/complete",
    "compare": "/overlay/{plain},{siblings}",
    "datasets": "/datasets",
    "models": "/models",
    "workers": "/workers",
    "tokens": "/tokens",
    "about": "/about",
    "missing": "/nowhere",
}

KINDS = (
    "first page", "leaderboard", "runs", "run", "task", "failures", "timing", "completion", "new", "complete",
    "compare", "models", "datasets", "tokens", "missing",
)  # fmt: skip
"""A page of each kind. On the 900 kB of the hostile completion axe takes longer than on all others together."""
OTHERS = tuple(name for name in PAGES if name not in KINDS)


def address(site, name: str) -> str:
    return site.url + re.sub(r"\{([^}]+)\}", lambda m: str(site.runs[m[1]]), PAGES[name])


def shares(page) -> list[float]:
    return [float(text.removesuffix(" %")) for text in page.locator("[data-share]").all_inner_texts()]


def slide(page, *keys: str) -> str:
    """Moves the slider with these keys, waits until the page shows its budget, and returns that."""
    page.get_by_label("Budget per task on a logarithmic scale").focus()
    for key in keys:
        page.keyboard.press(key)
    return shown_budget(page)


def shown_budget(page, label: str = "Budget per task") -> str:
    """The budget in the field with this label, once the page shows it."""
    budget = page.get_by_label(label, exact=True).input_value()
    expect(page.get_by_role("status").first).to_have_text(re.compile(f"^Shown at {re.escape(budget)} seconds"))
    return budget


def test_rows_and_ranks_follow_the_slider_and_the_address_keeps_its_budget(site, page):
    page.goto(site.url + "/leaderboard")
    before = shares(page)
    budget = slide(page, *["ArrowLeft"] * 25)
    after = shares(page)
    assert sum(after) < sum(before)
    assert page.url.endswith(f"/leaderboard?budget={budget}")
    ranked = page.locator("table.board").first
    ranks = [int(text) for text in ranked.locator("[data-rank]").all_inner_texts()]
    assert ranks == sorted(ranks)
    firsts = [float(t.removesuffix(" %")) for t in ranked.locator("td:nth-of-type(2) [data-share]").all_inner_texts()]
    assert firsts == sorted(firsts, reverse=True)
    page.reload()
    assert shares(page) == after


def test_the_last_position_of_the_slider_wins(site, page):
    """It moves on while the server still computes the answer for a former position."""
    page.goto(site.url + "/leaderboard")
    held = []
    page.route("**/leaderboard?budget=*", lambda route: held.append(route) if not held else route.continue_())
    slider = page.get_by_label("Budget per task on a logarithmic scale")
    slider.press("Home")
    page.wait_for_url("**/leaderboard?budget=0.1")
    slider.press("End")
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    assert shown_budget(page) == "20"
    page.wait_for_url("**/leaderboard?budget=20")
    expect(page.locator("caption").first).to_have_text(re.compile("20 s$"))


def test_what_a_reader_has_ticked_and_opened_stays_when_the_slider_moves(site, page):
    page.goto(site.url + "/leaderboard")
    picks = page.locator("table.board").first.locator("input.pick")
    picks.first.check()
    name = picks.first.get_attribute("value")
    page.locator("figure.chart summary").first.click()
    slide(page, *["ArrowLeft"] * 5)
    assert page.locator("input.pick:checked").evaluate_all("boxes => boxes.map((box) => box.value)") == [name]
    expect(page.locator("figure.chart details").first).to_have_attribute("open", "")


def test_a_heading_explains_its_figure_by_keyboard(site, page):
    page.goto(site.url + "/leaderboard")
    button = page.get_by_role("button", name="What Pass@First means").first
    button.focus()
    page.keyboard.press("Enter")
    about = page.locator("#about-first")
    assert "share of tasks whose chosen sample passes" in about.inner_text()
    assert Axe().run(page).violations_count == 0
    page.keyboard.press("Escape")
    expect(about).to_be_hidden()


def test_without_the_server_the_slider_says_that_the_figures_are_old(site, page):
    page.goto(site.url + "/leaderboard")
    slider = page.get_by_label("Budget per task on a logarithmic scale")
    status = page.locator("#board-form [role=status]")
    before = shares(page)
    page.context.set_offline(True)
    slider.press("Home")
    expect(status).to_contain_text("Connection lost")
    assert not status.evaluate("status => status.classList.contains('visually-hidden')")
    assert shares(page) == before
    page.context.set_offline(False)
    slider.press("PageUp")
    expect(status).to_contain_text("Shown at")
    assert shares(page) != before


def test_ranks_count_all_runs_at_the_budget_of_the_slider_where_only_some_rows_are_shown(site, page, monkeypatch):
    monkeypatch.setattr(board, "ROWS_SHOWN", 1)
    page.goto(site.url + "/leaderboard?sort=speed")
    row = page.locator("table.board").first.locator("tr[data-run]")
    for budget in ("1.5", "8"):
        page.get_by_label("Budget per task", exact=True).fill(budget)
        shown_budget(page)
        expect(row).to_have_count(1)
        listed = page.request.get(f"{site.url}/api/v1/leaderboard?budget={budget}").json()["rows"]
        rank = {one["run"]: one["rank"] for one in listed}[row.get_attribute("data-run")]
        assert row.locator("[data-rank]").inner_text() == str(rank)
    page.get_by_role("link", name="Show all 3").click()
    expect(row).to_have_count(3)
    assert page.url.count("budget=8") == 1


@pytest.mark.parametrize("keys", [(), ("ArrowLeft",)], ids=["as loaded", "after the slider moved"])
def test_pointing_at_a_row_brings_out_its_curve(site, page, keys):
    page.goto(site.url + "/leaderboard")
    if keys:
        slide(page, *keys)
    row = page.locator("table.board").first.locator("tbody tr").first
    row.hover()
    curve = page.locator(f"svg.wide path.curve[data-curve='{row.get_attribute('data-run')}']")
    expect(curve).to_have_class(re.compile(r"\blit\b"))
    expect(page.locator("svg.wide path.curve.lit")).to_have_count(1)


def test_columns_that_do_not_fit_scroll_beside_the_name_of_the_run(site, page):
    page.set_viewport_size({"width": 1024, "height": 900})
    page.goto(site.url + "/leaderboard")
    name = page.locator("table.board").first.locator("tbody th").first
    page.locator("table.board").first.evaluate("table => table.parentNode.scrollTo(400, 0)")
    assert name.bounding_box()["x"] >= 0
    assert "linear-gradient" in page.evaluate("getComputedStyle(document.querySelector('.scroll')).backgroundImage")


def test_bad_input_comes_back_named_and_kept(site, page):
    page.goto(site.url + "/runs/new")
    page.get_by_label("First tasks only").fill("8")
    page.get_by_label("Samples per task").fill("many")
    page.get_by_text("Advanced", exact=True).click()
    page.get_by_label("Name", exact=True).fill("mine")
    page.get_by_role("button", name="Start the run").click()
    field = page.get_by_label("Samples per task")
    expect(field).to_have_attribute("aria-invalid", "true")
    assert page.locator("#e-n").inner_text() == "Samples per task is 'many': give a whole number"
    expect(page.get_by_text("give a whole number")).to_have_count(1)
    assert page.get_by_label("Name", exact=True).input_value() == "mine"
    assert Axe().run(page).violations_count == 0
    page.locator("#errors").get_by_role("link", name="Samples per task").click()
    expect(field).to_be_focused()


def test_a_dataset_is_uploaded_from_its_page(site, page, tmp_path):
    file = tmp_path / "sums.jsonl"
    task = {"task_id": "sums/0", "prompt": "def add(a, b):\n", "entry_point": "add",
            "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
            "canonical_solution": "    return a + b\n"}  # fmt: skip
    file.write_text("not JSON\n")
    page.goto(site.url + "/datasets")
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    assert "line 1" in page.locator("#e-file").inner_text()
    assert Axe().run(page).violations_count == 0
    file.write_text(json.dumps(task))
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    page.get_by_role("link", name="sums/0").wait_for()


def test_on_a_phone_a_row_is_a_card_that_shows_every_column_with_its_label(site, page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(site.url + "/leaderboard")
    labels = ["Rank", *(column.label for column in COLUMNS)]
    cells = page.locator("tr[data-run]").first.locator("td:visible")
    assert [cell.get_attribute("data-label") for cell in cells.all()] == labels
    for cell, label in zip(cells.all(), labels, strict=True):
        assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") == f'"{label}"'
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


def test_the_theme_is_kept(site, page):
    page.goto(site.url)
    page.get_by_role("button", name="Switch between light and dark").click()
    page.goto(site.url + "/about")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_the_keyboard_reaches_the_content_first_and_focus_is_seen(site, page):
    page.goto(site.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    assert outline == "solid"


def test_a_failure_is_two_clicks_from_the_run(site, page):
    page.goto(address(site, "run"))
    page.get_by_role("link", name=re.compile("Failures")).click()
    page.locator(".chips a").first.click()
    expect(page.get_by_role("heading", name="Prompt as sent")).to_be_visible()


kinds_of_pages = pytest.mark.parametrize("names", [KINDS, thorough(OTHERS)], ids=["kinds", "others"])


@kinds_of_pages
@in_all_looks
def test_pages_fit_and_satisfy_axe(site, browser, look, names):
    look.check_pages(browser, [address(site, name) for name in names])


@kinds_of_pages
def test_every_page_has_its_heading_without_javascript(site, bare_page, names):
    headings = {}
    for name in names:
        bare_page.goto(address(site, name))
        headings[name] = bare_page.locator("h1").count()
    assert headings == dict.fromkeys(names, 1)


def test_tasks_and_budgets_are_reached_without_javascript(site, bare_page):
    bare_page.goto(address(site, "tasks"))
    bare_page.locator("table a.name").first.click()
    expect(bare_page.get_by_role("heading", name="Prompt as sent")).to_be_visible()
    bare_page.goto(site.url + "/leaderboard")
    bare_page.get_by_label("Budget per task", exact=True).fill("2")
    bare_page.get_by_role("button", name="Show").click()
    bare_page.wait_for_url(re.compile(r"budget=2(&|$)"))
    expect(bare_page.locator("caption").first).to_have_text(re.compile("2 s$"))


def test_a_printed_plot_is_the_wide_one_in_light_colours(site, page):
    page.set_viewport_size({"width": 390, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    page.goto(address(site, "run"))
    expect(page.locator("svg.wide").first).to_be_visible()
    expect(page.locator("svg.narrow").first).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_an_editor_takes_the_place_of_the_textarea_and_feeds_it(site, page):
    page.goto(site.url + "/complete")
    expect(page.locator("#f-prompt")).to_be_hidden()
    page.get_by_label("Prompt", exact=True).click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.press("Backspace")
    page.keyboard.type("def twice(x):\nreturn 2 * x  ")
    assert page.evaluate("document.getElementById('f-prompt').value") == "def twice(x):\n    return 2 * x  "
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.locator(".cm-editor :focus")).to_have_count(0)  # the keyboard gets out of the editor
    expect(page.get_by_label("Language")).to_be_focused()


def test_a_completion_shows_what_the_drafter_proposed(site, page):
    page.goto(address(site, "completion"))
    drafted = page.locator(".lane .from-d").first
    tint = "getComputedStyle(document.querySelector('.lane .from-d')).backgroundColor"
    expect(drafted).to_be_visible()
    assert page.evaluate(tint) != "rgba(0, 0, 0, 0)"
    page.get_by_label("Highlight accepted drafts").uncheck()
    assert page.evaluate(tint) == "rgba(0, 0, 0, 0)"


def test_the_first_load_of_the_leaderboard_is_light(site, browser, record_property):
    context = browser.new_context()
    page = context.new_page()
    sizes = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    page.goto(site.url, wait_until="networkidle")
    context.close()
    record_property("first load of the leaderboard, kB", round(sum(sizes) / 1000))
    assert sum(sizes) < 120_000


def test_a_line_of_a_program_is_not_wrapped_and_does_not_widen_the_page(site, page):
    for name in ("siblings", "hostile"):
        page.goto(f"{site.url}/runs/{site.runs[name]}/tasks/HumanEval/0")
        styles = page.locator("pre.code").evaluate_all("all => all.map((one) => getComputedStyle(one).whiteSpace)")
        assert set(styles) == {"pre"}
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
