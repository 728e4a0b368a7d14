"""Signing in, making a token and signing out, in a real browser over a service that asks who calls."""

from __future__ import annotations

import shutil
import threading
import urllib.error
import urllib.request

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from waitress import create_server

from app.accounts.users import create_user
from app.core.context import make_context
from app.core.settings import Settings
from app.core.states import Scope
from app.site.factory import create_app
from tests.thorough import thorough

pytestmark = pytest.mark.browser
PASSWORD = "correct horse battery"


@pytest.fixture
def address(tmp_path, migrated):
    shutil.copy(migrated, tmp_path / "bassline.db")
    ctx = make_context(Settings(data_dir=tmp_path, require_tokens=True, _env_file=None))
    create_user(ctx, "ada", PASSWORD, Scope.SUBMIT)
    server = create_server(create_app(ctx), host="127.0.0.1", port=0, threads=4)
    threading.Thread(target=server.run, daemon=True).start()
    yield f"http://127.0.0.1:{server.effective_port}"
    server.close()
    ctx.database.dispose()


@pytest.mark.parametrize("theme", ["light", thorough("dark")])
def test_from_signing_in_to_signing_out(browser, address, theme):
    page = browser.new_context(color_scheme=theme, viewport={"width": 390, "height": 844}).new_page()
    page.set_default_timeout(30_000)
    page.goto(f"{address}/tokens")
    assert page.title().startswith("Sign in")
    assert Axe().run(page).violations_count == 0
    page.keyboard.type("ada")  # the first field has the focus
    page.keyboard.press("Tab")
    page.keyboard.type("wrong horse battery")
    page.keyboard.press("Enter")
    page.locator("main").get_by_text("name or password is wrong").wait_for()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{address}/tokens")  # where the browser was going
    page.get_by_label("New token for").fill("laptop")
    page.get_by_role("button", name="Create token").click()
    token = page.inner_text("#made")
    assert Axe().run(page).violations_count == 0
    asked = urllib.request.Request(f"{address}/api/v1/runs", headers={"Authorization": f"Bearer {token}"})
    assert urllib.request.urlopen(asked).status == 200
    page.get_by_role("button", name="Revoke laptop").click()
    expect(page.get_by_role("button", name="Revoke laptop")).to_be_hidden()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(asked)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
    page.goto(f"{address}/runs")
    assert page.title().startswith("Sign in")
    page.context.close()
