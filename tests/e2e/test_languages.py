"""Other languages on the pages: the colours of Completion, and runs on the leaderboard beside Python's."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from app.datasets import service
from tests.app.world import World
from tests.e2e.looks import in_all_looks

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


RECORDS = Path(__file__).parents[1] / "evaluation" / "formats" / "multipl_e"


@pytest.fixture
def languages(live_service):
    """The address of a service where each language has two runs over a dataset of its own, and Python as well."""
    world = World(live_service.ctx)
    for letter in "ab":
        world.add_run(f"python {letter}", limit=None, n=1)
    for path in sorted(RECORDS.glob("*.jsonl")):
        stored = service.import_bytes(world.context, path.read_bytes(), f"multipl-e-{path.stem}", path.name)
        dataset = service.require_dataset(world.context, stored.name)
        for letter in "ab":
            world.add_run(f"{path.stem} {letter}", limit=None, n=2, dataset=dataset, toolchain=f"{path.stem} 1.2.3")
    return live_service.url


@in_all_looks
def test_runs_in_every_language_stand_beside_pythons_each_ranked_with_its_own(languages, browser, look):
    page = look.open(browser)
    page.goto(f"{languages}/leaderboard?rows=all")
    names = [path.stem for path in RECORDS.glob("*.jsonl")]
    for name in names:
        table = page.get_by_role("region", name=re.compile(f": multipl-e-{name} on"))
        expect(table.locator("a.name")).to_have_text([re.compile(rf"{name} [ab]")] * 2)
        expect(table).to_contain_text(f"judged with {name} 1.2.3")
    faults = look.faults(page)
    page.goto(f"{languages}/datasets")
    page.get_by_role("link", name="multipl-e-java", exact=True).click()
    expect(page.get_by_text("Results could be forged.")).to_be_visible()
    faults += look.faults(page)
    page.get_by_role("link", name="Own_2_extremes").click()
    test = page.get_by_label("Test", exact=True)
    expect(test.locator("span.kd", has_text="class")).to_be_visible()  # in the colours of Java
    expect(page.get_by_text("Results could be forged.")).to_be_visible()
    faults += look.faults(page)
    page.context.close()
    assert faults == []
