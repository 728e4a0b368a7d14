"""Pictures of the pages for README and docs: `python -m tests.e2e.screenshots [--out FOLDER]`.

They show the runs in the database, never invented data: run `make demo` first (twice, with two drafters, for a
comparison). This program serves the pages itself, read-only, over the database of the settings.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import click
from flask import Flask
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy import select
from waitress import create_server

from app.cli.common import open_context
from app.core import observability
from app.core.db.database import Database
from app.core.errors import BadInputError
from app.core.settings import load_settings
from app.core.terminal import echo_data
from app.runs.models import Run
from app.runs.repository import list_runs, load_tasks_with_samples
from app.site.factory import create_app
from app.studies.repository import list_studies

WIDTHS = {"wide": 1440, "narrow": 390}
TALLEST = 1200
IN_EVERY_FORM = (
    "first-page",
    "leaderboard",
    "compare",
    "complete",
    "study",
)  # the others are shown wide and light only
FLAGS = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"]

CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Names of the program. The first draws a page in two thirds of the CPU time of the others."""


@contextmanager
def served(app: Flask) -> Iterator[str]:
    """The address of a server of this application, on a free port of this machine."""
    server = create_server(app, host="127.0.0.1", port=0, threads=8)
    threading.Thread(target=server.run, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        server.close()


@contextmanager
def open_chromium() -> Iterator[Browser | None]:
    """This machine's Chromium, None if there is none."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        yield None
        return
    with sync_playwright() as playwright:
        flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


def pages(database: Database) -> dict[str, str]:
    """Name and path of every picture, over the newest ended runs. Raises BadInputError without such a run."""
    with database.read() as session:
        ended = [run for run in list_runs(session, limit=200) if run.curve and run.curve.n_tasks]
        if not ended:
            raise BadInputError("no run in the database has ended: make one with `make demo`")
        run = max(ended, key=_informativeness)
        paths = {"first-page": "/", "leaderboard": "/leaderboard", "runs": "/runs", "run": f"/runs/{run.id}"}
        paths |= {tab: f"/runs/{run.id}?tab={tab}" for tab in ("tasks", "failures", "timing", "config")}
        lines = load_tasks_with_samples(session, run.id)
        task = max(lines, key=lambda t: len({s.verdict for s in t.samples}))
        paths["task"] = f"/runs/{run.id}/tasks/{quote(task.task.task_id)}"
        if other := _partner(run, ended):
            paths["compare"] = f"/overlay/{other.id},{run.id}"
        paths |= {name: f"/{name}" for name in ("complete", "datasets", "models", "workers", "about")}
        paths["new-run"] = "/runs/new"
        if studies := list_studies(session, limit=20):
            study = next((one for one in studies if len({run.drafter for run in one.runs}) > 1), studies[0])
            paths |= {"studies": "/studies", "new-study": "/studies/new", "study": f"/studies/{study.id}"}
            paths |= {f"study-{tab}": f"/studies/{study.id}?tab={tab}" for tab in ("details", "arms")}
        if completion := session.scalar(select(Run.id).where(Run.is_completion).order_by(Run.id.desc()).limit(1)):
            paths["complete"] = f"/complete/{completion}"
    return paths


def take(browser: Browser, url: str, paths: dict[str, str], out: Path) -> list[Path]:
    """A picture of every page, wide and light; of some also dark, and narrow."""
    out.mkdir(parents=True, exist_ok=True)
    taken = []
    for size, scheme in (("wide", "light"), ("wide", "dark"), ("narrow", "light")):
        context = browser.new_context(viewport={"width": WIDTHS[size], "height": 900}, color_scheme=scheme)
        page = context.new_page()
        for name, path in paths.items():
            if (size, scheme) != ("wide", "light") and name not in IN_EVERY_FORM:
                continue
            page.goto(url + path, wait_until="load")
            height = min(int(page.evaluate("document.documentElement.scrollHeight")), TALLEST)
            page.set_viewport_size({"width": WIDTHS[size], "height": height})
            taken.append(out / f"{name}-{size}-{scheme}.png")
            page.screenshot(path=taken[-1])
            page.set_viewport_size({"width": WIDTHS[size], "height": 900})
        context.close()
    return taken


def _partner(run: Run, ended: list[Run]) -> Run | None:
    same = [r for r in ended if r.id != run.id and r.dataset_id == run.dataset_id]
    return max(same, key=_informativeness, default=None)


def _informativeness(run: Run) -> tuple[int, int, float]:
    """Runs with many tasks, several samples and some passes show the most."""
    assert run.curve is not None
    return run.curve.n_tasks, run.n, run.curve.pass_all[-1]


@click.command(epilog="Example: python -m tests.e2e.screenshots --out docs/screenshots")
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/screenshots"), show_default=True)
def main(out: Path) -> None:
    """Make the pictures of the pages from the runs in the database."""
    observability.configure(load_settings().model_copy(update={"log_level": "error"}))
    ctx = open_context()
    try:
        paths = pages(ctx.database)
    except BadInputError as error:
        raise click.ClickException(str(error)) from None
    with open_chromium() as browser, served(create_app(ctx)) as url:
        if browser is None:
            raise click.ClickException("no Chromium on this machine: install it, as with apt-get install chromium")
        taken = take(browser, url, paths, out)
    echo_data(f"{len(taken)} pictures in {out}")


if __name__ == "__main__":
    main()
