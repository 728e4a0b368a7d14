"""A populated service on a free port, and Chromium."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from playwright.sync_api import Browser, sync_playwright
from waitress import create_server

from app.context import make_context
from app.db.migrate import upgrade
from app.factory import create_app
from app.settings import Settings
from app.states import RunKind, RunState
from tests.app.world import World


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A service with runs in several states; `url`, `runs` by name and its `world`."""
    folder = tmp_path_factory.mktemp("site")
    ctx = make_context(Settings(data_dir=folder, database_url=f"sqlite:///{folder}/bassline.db", _env_file=None))
    upgrade(ctx.database)
    world = World(ctx, create_app(ctx))
    hostile = "x = '" + "<b>" * 300_000 + "'\u202e\x1b[31m</pre><script>document.title='owned'</script>"
    runs = {
        "siblings": world.add_run("siblings", limit=None, n=2, skill=0.45, pace=1.1),
        "plain": world.add_run("plain", limit=None, n=2, skill=0.5, pace=3.2, drafter="none"),
        "larger": world.add_run(
            "a larger model with a name that is long", limit=None, n=2, skill=0.8, pace=4, budget_s=20
        ),
        "cpu": world.add_run("on a processor", limit=None, n=1, skill=0.2, pace=5, device="CPU, 2 cores"),
        "stopped": world.add_run("stopped", limit=None, n=2, state=RunState.INTERRUPTED, done=30),
        "at work": world.add_run("at work", state=RunState.RUNNING, done=5),
        "broken": world.add_run("broken", state=RunState.FAILED, done=0),
        "completion": world.add_run("completion", limit=1, kind=RunKind.COMPLETION),
        "hostile completion": world.add_run("hostile completion", limit=1, n=2, kind=RunKind.COMPLETION, raw=hostile),
        "unjudged": world.add_run("unjudged", limit=3, graded=False),
        "hostile": world.add_run("<b>hostile</b>", n=2, limit=2, raw=hostile),
    }
    world.add_worker()
    server = create_server(world.app, host="127.0.0.1", port=0, threads=8)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield SimpleNamespace(url=f"http://127.0.0.1:{server.effective_port}", runs=runs, world=world)
    server.close()
    ctx.database.dispose()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium")
    flags = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=flags)
        yield chromium
        chromium.close()
