"""Notes and the archive in a real browser, and the long list of runs on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect

from app.annotations.schemas import AnnotationChanges
from app.core.states import RunState
from app.runs import service
from tests.app.world import open_world
from tests.e2e.looks import in_all_looks
from tests.e2e.screenshots import served

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RUNS = 160
SCREENS = 8  # of a phone, down to More runs
PHONE = {"width": 390, "height": 844}
FIRST_LOAD = 200_000  # bytes


@pytest.fixture(scope="module")
def many(tmp_path_factory, with_humaneval) -> Iterator[SimpleNamespace]:
    """A service with 160 runs, most of them with long names; `url`, and the `first` of the list."""
    world = open_world(tmp_path_factory.mktemp("many"), with_humaneval)
    for i in range(RUNS):
        name = f"nightly {i}" if i % 4 == 0 else f"qwen2.5-coder-0.5b sibling+smollm2-135m n=16 B=20s, repeat {i}"
        run = world.add_run(name, limit=1, n=1, state=RunState.INTERRUPTED if i % 9 == 0 else RunState.FINISHED)
    service.annotate(world.context, run, AnnotationChanges(note="n " * 4000))
    running = world.add_run("running", state=RunState.RUNNING, limit=4, done=1)
    with served(world.app) as url:
        yield SimpleNamespace(url=url, first=run, running=running, world=world)
    world.context.database.dispose()


@pytest.fixture
def phone(browser):
    context = browser.new_context(viewport=PHONE)
    yield context.new_page()
    context.close()


@pytest.mark.thorough
def test_on_a_phone_the_list_of_runs_ends_within_eight_screens_and_goes_on(many, phone, record_property):
    session = phone.context.new_cdp_session(phone)
    session.send("Network.enable")
    received: list[float] = []
    session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    phone.goto(f"{many.url}/runs", wait_until="networkidle")
    more = phone.get_by_role("link", name="More runs")
    height = more.bounding_box()["y"] + more.bounding_box()["height"]
    record_property("height", height)
    record_property("bytes", sum(received))
    assert height <= SCREENS * PHONE["height"]
    assert sum(received) < FIRST_LOAD
    assert not phone.evaluate("document.documentElement.scrollWidth > innerWidth")
    seen = set()
    while True:
        seen |= set(phone.locator("a.name").all_inner_texts())
        if not more.count():
            break
        more.click()
        phone.wait_for_load_state()
    assert len(seen) == RUNS + 1
    phone.get_by_role("link", name="Back to the first").click()
    expect(phone.get_by_role("link", name="running")).to_be_visible()


@pytest.mark.thorough
@in_all_looks
def test_the_forms_fit_and_satisfy_axe(many, browser, look):
    paths = (f"/runs/{many.first}", "/runs?archived=1", "/studies?archived=1")
    look.check_pages(browser, [many.url + path for path in paths])


def test_a_run_is_noted_archived_and_found_again_without_a_script(many, bare_page):
    run = many.world.add_run("to be kept", limit=1, n=1)
    bare_page.goto(f"{many.url}/runs/{run}?tab=tasks")
    bare_page.get_by_text("Write a note").click()
    bare_page.get_by_label("Note, plain text").fill("<b>two</b>\nlines")
    bare_page.get_by_role("button", name="Save the note").click()
    expect(bare_page.get_by_role("region", name="Text of the note", exact=True)).to_have_text("<b>two</b>\nlines")
    assert bare_page.url.endswith(f"/runs/{run}?tab=tasks")
    bare_page.get_by_role("button", name="Archive").click()
    expect(bare_page.get_by_text("This run is archived.")).to_be_visible()
    bare_page.goto(f"{many.url}/runs?name=to+be+kept")
    expect(bare_page.get_by_role("heading", name="No run matches")).to_be_visible()
    bare_page.get_by_label("Include archived").check()
    bare_page.get_by_role("button", name="Show").click()
    bare_page.get_by_role("link", name="to be kept").click()
    bare_page.get_by_role("button", name="Unarchive").click()
    expect(bare_page.get_by_text("This run is archived.")).to_have_count(0)


def test_what_one_types_on_the_page_of_a_running_run_is_not_lost(many, page):
    page.goto(f"{many.url}/runs/{many.running}")
    page.get_by_text("Write a note").click()
    field = page.get_by_label("Note, plain text")
    field.fill("half a no")
    page.locator("h1").click()  # elsewhere, so that the field has no focus
    with page.expect_response(f"**/runs/{many.running}"):
        pass
    page.wait_for_load_state("networkidle")
    assert field.input_value() == "half a no"
