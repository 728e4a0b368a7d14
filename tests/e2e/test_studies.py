"""The pages of studies in a real browser: slider, form, phone width, both themes, axe, hostile names."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect
from sqlalchemy import update

from app.core.db.types import get_utc_time
from app.core.states import RunState, TaskState
from app.runs.models import RunTask
from app.studies.models import Study
from tests.app.world import open_world
from tests.e2e.looks import HEIGHT, PHONE, in_all_looks
from tests.e2e.screenshots import served

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</h1><script>document.title='owned'</script><b>\u202e\x1b[31m"
NAMES = ("paper", "thirty-two arms", "hostile", "work", "lost", "empty", "one task")
TABS = ("answer", "details", "arms")


def arm(drafter: str = "sibling", n: int = 4, **options):
    name = options.pop("name", f"smollm2-135m, {drafter}, n = {n}")
    return {"name": name, "drafter": drafter, "n": n, "limit": 24, "seed": 3, "pace": 1.5 + 0.1 * n, **options}


@pytest.fixture(scope="module")
def site(tmp_path_factory, with_humaneval):
    """A service with studies by name."""
    world = open_world(tmp_path_factory.mktemp("studies"), with_humaneval)
    running = {"state": RunState.RUNNING}
    studies = {
        "paper": world.add_study(arm("none", 1, pace=4), arm("none", 8, pace=5), arm(n=1), arm(n=8), name="paper"),
        "work": world.add_study(arm(n=1, done=5, **running), arm(n=4, done=4, **running), name="in progress"),
        "lost": world.add_study(arm(n=1), arm(n=4), arm(n=8, done=8), arm("ngram", done=2, state=RunState.FAILED)),
        "empty": world.add_study(arm(n=1, done=0, state=RunState.QUEUED), arm(n=4, done=0, state=RunState.QUEUED)),
        "one task": world.add_study(arm(n=1, limit=1), arm(n=4, limit=1), name="one task"),
        "thirty-two arms": world.add_study(
            *(arm(d, n, limit=6) for d in ("none", "ngram", "sibling", "smollm2-135m") for n in range(1, 9)),
            name="thirty-two arms",
        ),
        "hostile": world.add_study(arm(n=1, name=f"a {HOSTILE}"), arm(n=4, name=f"b {HOSTILE}"), name=HOSTILE),
    }
    with world.context.database.session() as session:
        lost = session.get_one(Study, studies["lost"]).arms[2]
        lost.dropped_at, lost.dropped_by, lost.dropped_after = get_utc_time(), 1, 8
        session.get_one(Study, studies["one task"]).measured_elsewhere = f"AMD EPYC, 2 cores {HOSTILE}"
    with served(world.app) as url:
        yield SimpleNamespace(url=url, studies=studies, world=world)
    world.context.database.dispose()


def address(site, name: str, tab: str = "answer", budget: str = "") -> str:
    return f"{site.url}/studies/{site.studies[name]}?tab={tab}{f'&budget={budget}' if budget else ''}"


def pages(site, names: Iterable[str]) -> list[str]:
    tabs = [address(site, name, tab) for name in names for tab in TABS]
    return [*tabs, f"{site.url}/studies", f"{site.url}/studies/new"]


def test_the_slider_moves_the_answer_and_the_address_from_the_keyboard(site, page):
    page.goto(address(site, "paper", budget="10"))
    slider = page.get_by_label("Budget per task on a logarithmic scale")
    slider.focus()
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    budget = page.get_by_label("Budget per task", exact=True).input_value()
    assert float(budget) < 10
    page.wait_for_url(f"**budget={budget}")
    heading = page.locator("[data-live=body] h2").first
    page.wait_for_function("text => document.querySelector('[data-live=body] h2').textContent !== text", arg="At 10 s")
    assert slider.evaluate("slider => slider === document.activeElement")
    said = heading.inner_text(), page.locator(".finding").first.inner_text()
    page.reload()
    assert (heading.inner_text(), page.locator(".finding").first.inner_text()) == said
    page.get_by_role("link", name="Details", exact=True).click()
    assert page.get_by_label("Budget per task", exact=True).input_value() == budget


def test_the_form_shows_its_arms_while_one_types_and_a_preset_hides_the_grid(site, page):
    page.goto(site.url + "/studies/new")
    expect(page.get_by_text("5 arms × 40 tasks")).to_be_visible()
    page.get_by_label("A question of my own").check()
    page.get_by_text("4 arms × 40 tasks").wait_for()
    page.get_by_label("Samples per task").fill("1, 2, 4")
    page.get_by_text("6 arms × 40 tasks").wait_for()
    page.get_by_label("Samples per task").fill("1, two")
    page.locator("[data-live=preview] .error").get_by_text("give a whole number").wait_for()
    page.get_by_label("How many samples?").check()
    expect(page.get_by_label("Samples per task")).to_be_hidden()
    page.get_by_text("5 arms × 40 tasks").wait_for()


def test_a_study_is_started_from_the_form_and_followed(site, page):
    page.goto(site.url + "/studies/new")
    page.get_by_label("First tasks only").fill("3")
    page.get_by_text("Chosen tasks, seed, name, race").click()
    page.get_by_label("Name", exact=True).fill("mine")
    page.get_by_role("button", name="Start the study").click()
    expect(page.get_by_role("heading", name="mine")).to_be_visible()
    expect(page.get_by_text("0 of 15 tasks of all arms decoded")).to_be_visible()


def test_a_running_study_updates_itself(site, page):
    study = site.world.add_study(arm(n=1, done=2, state=RunState.RUNNING), arm(n=4, done=2, state=RunState.RUNNING))
    page.goto(f"{site.url}/studies/{study}")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    with site.world.context.database.session() as session:
        for one in session.get_one(Study, study).arms:
            one.run.state = RunState.INTERRUPTED
    page.get_by_role("button", name="Resume").wait_for()


def test_a_study_that_is_watched_live_ends_as_a_reload_shows_it(site, page):
    study = site.world.add_study(arm(n=1, limit=4), arm(n=4, limit=4))
    with site.world.context.database.session() as session:
        runs = session.get_one(Study, study).runs
        facts = {run.id: run.provenance for run in runs}
        for run in runs:
            run.state, run.provenance = RunState.RUNNING, {}
        session.execute(update(RunTask).where(RunTask.run_id.in_(facts)).values(state=TaskState.GRADING))
    page.goto(f"{site.url}/studies/{study}")
    page.get_by_role("group", name="Progress").wait_for()
    slider = page.get_by_label("Budget per task on a logarithmic scale")
    expect(slider).to_have_count(0)
    with site.world.context.database.session() as session:
        for run in session.get_one(Study, study).runs:
            run.state, run.provenance = RunState.FINISHED, facts[run.id]
        session.execute(update(RunTask).where(RunTask.run_id.in_(facts)).values(state=TaskState.FINISHED))
    page.get_by_text("Pass against the budget").wait_for()
    expect(page.get_by_role("group", name="Progress")).to_have_count(0)
    head, tabs = page.locator("[data-live=head]"), page.get_by_role("navigation", name="Parts of this study")
    seen = head.inner_text()
    assert " on auto" not in seen
    top = tabs.bounding_box()["y"]
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**budget=*")
    page.goto(f"{site.url}/studies/{study}")
    assert (head.inner_text(), tabs.bounding_box()["y"]) == (seen, top)


@pytest.mark.parametrize(
    "names", [NAMES[:1], pytest.param(NAMES[1:], marks=pytest.mark.thorough)], ids=["one", "others"]
)
@in_all_looks
def test_pages_fit_and_satisfy_axe(site, browser, look, names):
    look.check_pages(browser, pages(site, names))


@pytest.mark.thorough
def test_on_a_phone_a_study_ends_within_eight_screens(site, browser):
    page = PHONE.open(browser)
    for url in pages(site, NAMES):
        page.goto(url)
        assert "/studies/" not in url or page.evaluate("document.body.scrollHeight") <= 8.5 * HEIGHT, url
    page.context.close()


def test_pages_answer_without_javascript(site, bare_page):
    bare_page.goto(address(site, "paper"))
    bare_page.get_by_label("Budget per task", exact=True).fill("2")
    bare_page.get_by_role("button", name="Show").click()
    expect(bare_page.get_by_role("heading", name="At 2 s")).to_be_visible()
    bare_page.goto(site.url + "/studies/new?n=1&n=8")
    bare_page.get_by_label("Samples per task").fill("1, 2, 4")
    bare_page.get_by_role("button", name="Preview the arms").click()
    expect(bare_page.get_by_text("6 arms × 40 tasks")).to_be_visible()


def test_help_opens_beside_its_word_and_not_over_the_answer(site, page):
    page.goto(address(site, "paper"))
    button = page.get_by_role("button", name="What arm means")
    button.click()
    word, about = button.bounding_box(), page.locator("#term-arm").bounding_box()
    answer = page.locator(".finding").first.bounding_box()
    assert abs(about["y"] - word["y"] - word["height"]) < 24
    assert about["y"] + about["height"] <= answer["y"]
