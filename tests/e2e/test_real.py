"""What a user does, with a real small model and the real sandbox: in one process, and on the stack."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from app.core.db import migrate
from app.core.db.database import Database
from decoding.models import fetch
from evaluation.sandbox import Sandbox, SandboxUnavailableError
from tests.integration.conftest import postgres_url, redis_url  # noqa: F401 (fixtures)
from tests.integration.servers import free_port
from tests.integration.waiting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.model, pytest.mark.slow]

MODEL = "smollm2-135m"


@pytest.fixture(params=["embedded", pytest.param("stack", marks=pytest.mark.thorough)])
def url(request, tmp_path: Path) -> Iterator[str]:
    """A service of each shape, in processes of its own."""
    try:
        Sandbox.detect()
    except SandboxUnavailableError as error:
        pytest.skip(f"no sandbox here: {error}")
    fetch.ensure(MODEL)
    environment, port = {**os.environ, "BASSLINE_DATA_DIR": str(tmp_path)}, str(free_port())
    if request.param == "stack":
        environment |= {
            "BASSLINE_DATABASE_URL": request.getfixturevalue("postgres_url"),
            "BASSLINE_BROKER_URL": request.getfixturevalue("redis_url"),
            "BASSLINE_SECRET_KEY": "test",
        }
        database = Database(environment["BASSLINE_DATABASE_URL"])
        migrate.upgrade(database)
        database.dispose()
        commands = [("worker",), ("web", "--port", port, "--workers", "1", "--threads", "8")]
    else:
        environment |= {"BASSLINE_DATABASE_URL": f"sqlite:///{tmp_path}/bassline.db"}
        commands = [("serve", "--port", port)]
    started = []
    for words in commands:
        with (tmp_path / f"{words[0]}.log").open("w") as log:
            command = [sys.executable, "-m", "app.cli", *words]
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True))
    here = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            return urllib.request.urlopen(here + "/api/v1/health/ready", timeout=5).status == 200
        except OSError:
            return False

    try:
        wait_for(ready, 300)
        yield here
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(300_000)  # the first run loads the model, on a busy machine for minutes
    yield context.new_page()
    context.close()


def start_run(page, drafter: str) -> None:
    page.get_by_label("Drafter", exact=True).select_option(drafter)
    page.get_by_label("Name", exact=True).fill(f"with {drafter}")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}$"))
    page.get_by_role("link", name="Run again with changes").wait_for()


@pytest.mark.thorough
def test_run_failure_comparison_slider_and_completion(url, page):
    page.goto(url + "/runs/new")
    page.get_by_text("Advanced", exact=True).click()
    fields = {"Target model": MODEL, "First tasks only": "2", "Samples per task": "2",
              "Budget per task, seconds": "60", "Max tokens per sample": "24"}  # fmt: skip
    for label, value in fields.items():
        page.get_by_label(label, exact=True).fill(value)
    start_run(page, "ngram")
    expect(page.locator(".scores").first).to_be_visible()

    page.get_by_role("link", name=re.compile("^Failures")).click()
    page.locator(".taxonomy .chips a").first.click()
    expect(page.get_by_role("heading", name="Prompt as sent")).to_be_visible()
    # Equal samples stand once, with a column of figures for each.
    expect(page.locator("article.sample .figures tr:first-child td")).to_have_count(2)
    expect(page.get_by_text("Against the clock")).to_be_visible()

    page.locator(".crumbs a").nth(1).click()
    page.get_by_role("link", name="Run again with changes").click()
    assert page.get_by_label("Target model").input_value() == MODEL
    start_run(page, "none")
    page.get_by_role("link", name="Overlay", exact=True).last.click()
    page.locator('input[name="runs"]:not(:checked)').first.check()
    page.get_by_role("button", name="Overlay", exact=True).click()
    changes = page.get_by_role("region", name="What changed")
    expect(changes.get_by_role("rowheader", name="Drafter")).to_be_visible()
    expect(page.get_by_text(re.compile("^Undecided")).first).to_be_visible()

    page.goto(url + "/leaderboard")
    page.get_by_label("Budget per task on a logarithmic scale").press("Home")
    page.wait_for_url(re.compile(r"budget=0\.\d+"))
    shares = page.locator("[data-share]")
    expect(shares.first).to_have_text("0 %")
    expect(shares.filter(has_not_text=re.compile(r"^0 %$"))).to_have_count(0)

    page.goto(url + "/complete")
    expect(page.locator("#f-prompt")).to_be_hidden()  # the editor has taken its place
    page.get_by_label("Target model").fill(MODEL)
    page.get_by_label("Samples").fill("3")
    page.get_by_text("Advanced", exact=True).click()
    page.get_by_label("Max tokens").fill("40")
    page.get_by_text("Tests (optional)").click()
    page.get_by_label("Test", exact=True).fill("assert is_palindrome('abba')")
    page.get_by_role("button", name="Complete").click()
    page.locator(".lane-text").filter(has_text=re.compile(r"\S")).first.wait_for()
    page.get_by_text("of 3 finished within").wait_for()
    page.locator(".lane .lane-facts .sq").first.wait_for()
    page.reload()
    expect(page.locator(".lane .lane-facts .sq")).to_have_count(3)
