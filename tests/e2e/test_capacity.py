"""The pages of load tests in a real browser: two selected and compared, phone width, both themes, axe, no script."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from playwright.sync_api import expect

from app.capacity import service
from app.capacity.schemas import LoadTestSpec
from app.context import make_context
from app.db.migrate import upgrade
from app.factory import create_app
from app.settings import Settings
from tests.app.world import World
from tests.e2e.conftest import served
from tests.e2e.looks import HEIGHT, in_all_looks
from tests.load_tests import load_test

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</h1><script>document.title='owned'</script><b>\u202e\x1b[31m"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A service with load tests by name, and one without any."""
    folder = tmp_path_factory.mktemp("capacity")
    ctx = make_context(Settings(data_dir=folder, database_url=f"sqlite:///{folder}/bassline.db", _env_file=None))
    upgrade(ctx.database)
    bodies = {
        "together": load_test("qwen2.5-coder-0.5b, n = 4, 5 s, together", carries=1.0),
        "alone": load_test("qwen2.5-coder-0.5b, n = 4, 5 s, alone", carries=0.1, arm="alone"),
        "one rate": load_test("one rate", rates=(0.5,), unclocked_s=3.0, n=8),
        "hostile": load_test(HOSTILE, arm=HOSTILE, device=HOSTILE, target=f"hf:{HOSTILE}"),
    }
    tests = {name: service.store(ctx, LoadTestSpec.model_validate(body)) for name, body in bodies.items()}
    with served(World(ctx, create_app(ctx))) as url:
        yield SimpleNamespace(url=url, tests=tests)
    ctx.database.dispose()


def address(site, name: str, other: str = "") -> str:
    return f"{site.url}/capacity/{site.tests[name]}{f'?with={site.tests[other]}' if other else ''}"


def test_two_selected_load_tests_are_compared_from_the_keyboard(site, page):
    page.goto(site.url)
    navigation = page.get_by_role("navigation", name="Main")
    navigation.get_by_text("More").focus()
    page.keyboard.press("Enter")
    navigation.get_by_role("link", name="Capacity").click()
    for name in ("together", "alone"):
        page.get_by_role("checkbox", name=name).focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Compare two").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("alone and together")
    expect(page.locator("svg.wide .end").first).to_be_visible()
    expect(page.get_by_text("It carries 1 request per second")).to_be_visible()
    expect(page.get_by_text("It carries 0.1 requests per second")).to_be_visible()


def test_another_is_laid_over_a_load_test_without_javascript(site, browser):
    context = browser.new_context(viewport={"width": 1440, "height": 900}, java_script_enabled=False)
    page = context.new_page()
    page.goto(address(site, "together"))
    page.get_by_label("Load test").select_option(label="qwen2.5-coder-0.5b, n = 4, 5 s, alone")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("together and alone")
    page.goto(f"{site.url}/capacity")
    page.get_by_role("checkbox", name="one rate").check()
    page.get_by_role("button", name="Compare two").click()
    expect(page.get_by_role("alert")).to_contain_text("select two to compare them")
    expect(page.get_by_role("checkbox", name="one rate")).to_be_checked()
    context.close()


def test_hostile_names_run_nothing(site, page):
    for url in (f"{site.url}/capacity", address(site, "hostile"), address(site, "hostile", "alone")):
        page.goto(url)
        assert "owned" not in page.title().split("·")[-1]
        assert page.evaluate("document.querySelectorAll('main b, main script').length") == 0


@in_all_looks
def test_pages_fit_and_satisfy_axe(site, browser, look):
    page, found = look.open(browser), []
    urls = [f"{site.url}/capacity", *(address(site, name) for name in site.tests)]
    for url in [*urls, address(site, "together", "alone"), address(site, "hostile", "one rate")]:
        page.goto(url)
        found += look.faults(page)
        if look.width == 390 and page.evaluate("document.body.scrollHeight") > 8.5 * HEIGHT:
            found.append(f"{url} is longer than eight screens of a phone")
    page.context.close()
    assert not found, "\n".join(found)
