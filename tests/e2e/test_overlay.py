"""Overlay, matrix and a task side by side in a real browser: keyboard, pointer, no script, phone width, themes, axe."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect

from app.web.ui.units import format_seconds
from tests.app.world import open_world
from tests.e2e.looks import in_all_looks
from tests.e2e.screenshots import served

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</h1><script>document.title='owned'</script><b>\u202e"


@pytest.fixture(scope="module")
def site(tmp_path_factory, with_humaneval):
    """A service with runs of three drafters and two seeds each; `runs` are their ids, `text` the same with commas."""
    world = open_world(tmp_path_factory.mktemp("overlay"), with_humaneval)
    runs = [
        world.add_run(f"qwen2.5-coder-0.5b {drafter}", drafter=drafter, seed=seed, skill=skill, pace=pace, limit=30)
        for drafter, skill, pace in (("none", 0.2, 5.0), ("ngram", 0.4, 2.5), ("sibling", 0.8, 1.2))
        for seed in (1, 2)
    ]
    hostile = world.add_run(HOSTILE, raw=f"x = '{HOSTILE}'\n", limit=30)
    with served(world.app) as url:
        yield SimpleNamespace(url=url, runs=runs, text=",".join(map(str, runs)), hostile=hostile)
    world.context.database.dispose()


@pytest.mark.parametrize("path", ["/leaderboard", "/runs"])
def test_runs_ticked_from_the_keyboard_are_laid_over_each_other(site, page, path):
    page.goto(site.url + path)
    for run_id in site.runs[:3]:
        page.locator(f'input[name="runs"][value="{run_id}"]').focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Overlay", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("3 runs over 30 tasks of humaneval")
    expect(page.locator("svg.wide .curve.first")).to_have_count(3)


def values(page) -> list[str]:
    return page.locator("#overlay [data-value]").all_inner_texts()


def test_the_values_of_all_curves_follow_keyboard_and_pointer(site, page):
    page.goto(f"{site.url}/overlay/{site.text}?budget=8")
    before = values(page)
    slider = page.get_by_label("Budget per task on a logarithmic scale")
    slider.focus()
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    budget = page.get_by_label("Budget per task", exact=True).input_value()
    assert float(budget) < 8
    after = values(page)
    assert after != before
    expect(page.get_by_role("heading", name=f"At {format_seconds(float(budget))}, against A")).to_be_visible()
    page.wait_for_url(lambda url: url.endswith(f"budget={budget}"))
    table = page.get_by_role("region", name="Shares and differences to the baseline")
    for share in after:  # the server agrees with the values that the script read off the curves
        expect(table).to_contain_text(share)
    expect(page.get_by_role("link", name="Matrix of tasks")).to_have_attribute("href", re.compile(f"budget={budget}$"))
    page.reload()
    assert values(page) == after
    box = page.locator("svg.wide").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.08, box["y"] + 100)
    low = values(page)
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 100)
    assert values(page) != low
    page.mouse.move(5, 5)
    assert values(page) == after
    page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + 100)
    page.wait_for_url(lambda url: f"budget={budget}" not in url)


def test_arrow_keys_read_a_chart_and_enter_sets_the_budget(site, page):
    page.goto(f"{site.url}/overlay/{site.text}?budget=5")
    plot, read = page.locator("#overlay"), page.locator("#overlay [data-at]")
    at_rest = values(page)
    plot.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(read).to_have_text("4 s")
    expect(plot.locator("[data-said]")).to_have_text(re.compile(r"^At 4 s, A .*\d %, B "))
    page.keyboard.press("Escape")
    expect(read).to_have_text("5 s")
    assert values(page) == at_rest
    page.keyboard.press("ArrowRight")
    budget = read.inner_text().removesuffix(" s")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.endswith(f"budget={budget}"))
    expect(page.get_by_role("heading", name=re.compile(f"^At {budget} s, against A"))).to_be_visible()
    expect(plot).to_be_focused()


def test_a_typed_budget_between_the_positions_is_read_exactly(site, page):
    page.goto(f"{site.url}/overlay/{site.text}?budget=5")
    page.get_by_label("Budget per task", exact=True).fill("3.17")
    expect(page.locator("#overlay [data-at]")).to_have_text("3.17 s")
    shown = values(page)
    page.goto(f"{site.url}/overlay/{site.text}?budget=3.17")
    assert values(page) == shown


def test_a_finger_reads_a_chart_and_the_reading_stays_when_it_is_lifted(site, browser):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{site.url}/runs/{site.runs[0]}")
    plot = page.locator("#run svg.narrow")
    plot.scroll_into_view_if_needed()
    before = page.locator("#run [data-value]").all_inner_texts()
    box = plot.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] * 0.3, box["y"] + 100)
    expect(page.locator("#run .reading")).to_be_visible()
    assert page.locator("#run [data-value]").all_inner_texts() != before
    context.close()


def test_the_budget_and_the_baseline_can_be_chosen_without_javascript(site, bare_page):
    bare_page.goto(f"{site.url}/overlay/{site.text}")
    bare_page.get_by_label("Budget per task", exact=True).fill("3")
    bare_page.get_by_role("button", name="Show").click()
    expect(bare_page.get_by_role("heading", name="At 3 s, against A")).to_be_visible()
    bare_page.get_by_role("link", name="Pin as baseline").nth(2).click()
    bare_page.wait_for_url(f"**/overlay/{site.runs[3]},{site.runs[0]}*")


def test_a_cell_of_the_matrix_leads_to_the_samples_side_by_side(site, page):
    page.goto(f"{site.url}/overlay/{site.text}/matrix?budget=4")
    page.get_by_label("Tasks", exact=True).select_option("different")
    page.get_by_role("button", name="Show").click()
    cell = page.locator("table.matrix tbody td a").nth(2)
    assert re.match(r"[A-Z(–]", cell.inner_text())
    cell.click()
    page.wait_for_url(re.compile(r"/task\?id=HumanEval/.*#C$"))
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible()
    expect(page.locator(".side pre.code")).to_have_count(6)


def test_on_a_phone_the_matrix_scrolls_in_its_panel_and_the_task_stays(site, browser):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{site.url}/overlay/{site.text}/matrix?budget=4")
    region = page.get_by_role("region", name="Tasks by runs")
    head = region.locator("tbody th").first
    before = head.bounding_box()
    region.evaluate("element => element.scrollLeft = 150")
    assert region.evaluate("element => element.scrollLeft") > 0
    assert head.bounding_box()["x"] == before["x"]
    context.close()


@in_all_looks
def test_pages_fit_satisfy_axe_and_run_nothing_of_a_run(site, browser, look):
    hostile = f"{site.url}/overlay/{site.runs[0]},{site.hostile}"
    views = [f"{hostile}{view}" for view in ("", "/matrix", "/task?id=HumanEval/1")]
    look.check_pages(browser, [f"{site.url}/overlay", f"{site.url}/overlay/{site.text}", *views])
