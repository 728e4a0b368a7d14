"""A populated service on a free port, and Chromium."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from playwright.sync_api import Browser, Page, expect
from waitress import create_server

from app.completions.models import CompletionRun
from app.core.context import make_context
from app.core.settings import Settings
from app.core.states import RunKind, RunState
from app.datasets.service import import_file
from app.jobs.embedded import EmbeddedWorkers
from app.site.factory import create_app
from tests.app.world import open_world
from tests.e2e.screenshots import open_chromium, served
from tests.fakes import RIGHT, FakeGrader, StreamingEngine

expect.set_options(timeout=90_000)  # milliseconds, as long as every other wait of a page: the machine may be busy


@pytest.fixture(scope="session")
def reference_site(tmp_path_factory: pytest.TempPathFactory, with_reference_studies: Path) -> Iterator[str]:
    """The address of a service with the reference studies alone, which no test changes."""
    world = open_world(tmp_path_factory.mktemp("reference-site"), with_reference_studies)
    with served(world.app) as url:
        yield url
    world.context.database.dispose()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, with_humaneval: Path) -> Iterator[SimpleNamespace]:
    """A service with runs in several states; `url`, `runs` by name and its `world`."""
    world = open_world(tmp_path_factory.mktemp("site"), with_humaneval)
    hostile = "x = '" + "<b>" * 300_000 + "'\u202e\x1b[31m</pre><script>document.title='owned'</script>"
    runs = {
        "siblings": world.add_run("siblings", limit=None, n=2, skill=0.45, pace=1.1),
        "plain": world.add_run("plain", limit=None, n=2, skill=0.5, pace=3.2, drafter="none"),
        "larger": world.add_run(
            "a larger model with a name that is long", limit=None, n=2, skill=0.8, pace=4, budget_s=20, target="larger"
        ),
        "cpu": world.add_run("on a processor", limit=None, n=1, skill=0.2, pace=5, device="CPU, 2 cores"),
        "stopped": world.add_run("stopped", limit=None, n=2, state=RunState.INTERRUPTED, done=30),
        "running": world.add_run("running", state=RunState.RUNNING, done=5),
        "broken": world.add_run("broken", state=RunState.FAILED, done=0),
        "completion": world.add_run("completion", limit=1, kind=RunKind.COMPLETION),
        "speculative": world.add_run("speculative", limit=1, kind=RunKind.COMPLETION),
        "second completion": world.add_run(
            "second completion", limit=1, kind=RunKind.COMPLETION, drafter="none", pace=1.4
        ),
        "hostile completion": world.add_run("hostile completion", limit=1, n=2, kind=RunKind.COMPLETION, raw=hostile),
        "hostile plain": world.add_run(
            "hostile plain", limit=1, n=2, kind=RunKind.COMPLETION, raw=hostile, drafter="none"
        ),
        "unjudged": world.add_run("unjudged", limit=3, graded=False),
        "hostile": world.add_run("<b>hostile</b>", n=2, limit=2, raw=hostile),
    }
    with world.context.database.session() as session:
        for plain, speculative in (("second completion", "speculative"), ("hostile plain", "hostile completion")):
            session.get_one(CompletionRun, runs[plain]).after_id = runs[speculative]
    world.add_worker()
    with served(world.app) as url:
        yield SimpleNamespace(url=url, runs=runs, world=world)
    world.context.database.dispose()


@pytest.fixture
def live_service(tmp_path: Path, migrated: Path) -> Iterator[SimpleNamespace]:
    """A running service with its own queue and stream: `url`, and the `ctx` whose engine a test may replace."""
    (tmp_path / "data").mkdir()
    shutil.copy(migrated, tmp_path / "data" / "bassline.db")
    ctx = make_context(Settings(_env_file=None, data_dir=tmp_path / "data", reap_interval_s=0.2))
    engine = StreamingEngine()
    ctx.load_engine, ctx.make_grader = (lambda config, on_progress: engine), FakeGrader
    with EmbeddedWorkers(ctx, "test"):
        rows = [{"task_id": f"add/{i}", "prompt": f'def add(a, b):\n    """Sum {i}."""\n', "entry_point": "add",
                 "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n", "canonical_solution": RIGHT}
                for i in range(3)]  # fmt: skip
        file = tmp_path / "additions.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
        import_file(ctx, file)
        server = create_server(create_app(ctx), host="127.0.0.1", port=0, threads=8)
        threading.Thread(target=server.run, daemon=True).start()
        yield SimpleNamespace(url=f"http://127.0.0.1:{server.effective_port}", ctx=ctx)
        server.close()
    ctx.database.dispose()


@pytest.fixture
def live(live_service: SimpleNamespace) -> str:
    """The address of `live_service`."""
    return str(live_service.url)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    with open_chromium() as chromium:
        if chromium is None:
            pytest.skip("no Chromium: apt-get install chromium")
        yield chromium


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A wide page in a context of its own; at the end no script has failed or been blocked by the content policy."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(90_000)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if "Content Security Policy" in line.text else None)
    yield page
    context.close()
    assert not faults


@pytest.fixture
def bare_page(browser: Browser) -> Iterator[Page]:
    """A wide page that runs no script."""
    with browser.new_context(viewport={"width": 1440, "height": 900}, java_script_enabled=False) as context:
        context.set_default_timeout(30_000)
        yield context.new_page()
