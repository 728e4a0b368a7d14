"""Try my code in a real browser: from the form to the report with a real model, and its pages in every look."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from app.advice import service
from app.advice.schemas import AdviceSpec
from app.background.jobs import get_job
from app.core.states import BackgroundJobState
from tests.app.advice.test_try import FILES
from tests.app.world import open_world
from tests.e2e.looks import in_all_looks
from tests.e2e.screenshots import served
from tests.e2e.test_real import MODEL, page, postgres_url, redis_url, url  # noqa: F401 (fixtures)
from tests.evaluation.from_code.source.test_uploaded import pack_tar
from tests.evaluation.from_code.wheels import build_wheels

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</h1><script>document.title='owned'</script><b>\u202e\x1b[31m"


@pytest.fixture(autouse=True)
def wheels(tmp_path_factory, monkeypatch) -> None:
    """Lets the workers of the stack install pytest without a network."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(build_wheels(tmp_path_factory.mktemp("index") / "wheels")))
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mine")
    for path, content in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    return folder / "shop"


@pytest.mark.thorough
@pytest.mark.model
def test_from_the_first_page_to_the_report(url, browser, page, project):  # noqa: F811
    page.goto(url)
    page.get_by_role("main").get_by_role("link", name="Try my code").click()
    page.get_by_label("Budget per answer, seconds").fill("soon")
    page.get_by_role("button", name="Try my code").click()
    expect(page.locator("#e-budget_s")).to_have_text("Budget per answer, seconds is 'soon': give a number")
    assert Axe().run(page).violations_count == 0

    bare = browser.new_context(java_script_enabled=False).new_page()
    bare.goto(f"{url}/try")
    if bare.get_by_label("Folder of the project").count():
        bare.get_by_label("Folder of the project").fill(str(project))
        bare.get_by_label("Interpreter").fill(sys.executable)
    else:
        sent = {"name": "shop.tar.gz", "mimeType": "application/gzip", "buffer": pack_tar(FILES)}
        bare.get_by_label("Archive of the project").set_input_files(sent)
    for box in bare.locator("input[name=target][type=checkbox]").all():
        box.set_checked(box.get_attribute("value") == MODEL)
    fields = {"Budget per answer": "10", "Total minutes, approximately": "1", "Samples per task": "2"}
    for label, value in fields.items():
        bare.get_by_label(label).fill(value)
    bare.get_by_label("Wait for a quiet machine").uncheck()
    bare.get_by_role("button", name="Try my code").click()
    bare.wait_for_url(re.compile(r"/try/[0-9a-f-]{36}$"))
    expect(bare.get_by_role("button", name="Cancel")).to_be_visible()

    page.goto(bare.url)
    bare.context.close()
    expect(page.locator("li[aria-current=step]")).to_have_text(
        re.compile("^(Make tasks|Let the models)"), timeout=300_000
    )
    page.get_by_role("link", name="Read the report").click(timeout=300_000)
    page.wait_for_url(re.compile("/try/report/"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Which model for shop?")
    expect(page.locator(".finding")).to_contain_text("of your code within 10 s")
    expect(page.get_by_role("region", name="Models").get_by_role("rowheader")).to_have_text(
        [f"{MODEL}, n = 1", f"{MODEL}, n = 2"]
    )
    with page.expect_download() as downloaded:
        page.get_by_role("link", name="Download advice.md").click()
    assert Path(downloaded.value.path()).read_text().startswith("# Which model for shop?\n")
    assert downloaded.value.suggested_filename == "advice.md"
    page.get_by_role("link", name="The tasks, and why others were left out").click()
    expect(page.get_by_role("region", name="Coverage")).to_contain_text("1 of the 1 function")
    page.go_back()
    page.get_by_role("link", name="The study").click()
    page.wait_for_url(re.compile("/studies/"))


@pytest.fixture(scope="module")
def site(tmp_path_factory, with_humaneval):
    """A service with a job in each state, and a study; `pages` are the addresses."""
    world = open_world(tmp_path_factory.mktemp("try"), with_humaneval)
    study = world.add_study({"name": "small", "n": 1}, {"name": f"large {HOSTILE}", "n": 4, "pace": 4}, name="Which?")
    pages = ["/try", f"/try/report/{study}"]
    progress = {"cursor": {"step": "tasks"}, "done": 3, "total": 9, "message": "functions checked, about 20 s left"}
    ended = {"cursor": {"step": "answer"}, "result": {"advice": f"On 40 tasks of your code use {HOSTILE}"}}
    for values in (
        {"state": BackgroundJobState.QUEUED},
        {"state": BackgroundJobState.RUNNING, **progress},
        {"state": BackgroundJobState.FAILED, "error": f"no function of {HOSTILE} became a task", **progress},
        {"state": BackgroundJobState.FINISHED, **ended},
    ):
        job_id = service.submit(world.context, AdviceSpec(path="/tmp", target=MODEL), None)
        with world.context.database.session() as session:
            for name, value in {"subject": f"mine {HOSTILE}", **values}.items():
                setattr(get_job(session, job_id), name, value)
        pages.append(f"/try/{job_id}")
    with served(world.app) as address:
        yield SimpleNamespace(url=address, pages=pages)
    world.context.database.dispose()


@in_all_looks
def test_pages_fit_and_satisfy_axe(site, browser, look):
    look.check_pages(browser, [site.url + address for address in site.pages])
