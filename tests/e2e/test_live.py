"""A completion and a run at work, live over the real queue and stream, with an engine that takes its time."""

from __future__ import annotations

import json
import re
import threading
import time

import pytest
from waitress import create_server

from app.context import make_context
from app.datasets.service import import_file
from app.factory import create_app
from app.jobs.embedded import Embedded
from app.settings import Settings
from decoding.request import Update
from tests.fakes import RIGHT, FakeEngine, FakeGrader

pytestmark = pytest.mark.browser


class StreamingEngine(FakeEngine):
    """Tells of each sample as it grows: every sample gains a token per step, a step taking some milliseconds."""

    step_s = 0.15

    def generate(self, request, on_update=None, should_cancel=None):
        completion = super().generate(request, None, should_cancel)
        for step in range(1, 9):
            time.sleep(self.step_s)
            if on_update:
                on_update([self._at(sample, step) for sample in completion.samples])
        return completion

    def _at(self, sample, step: int) -> Update:
        done = step >= 4 + sample.index
        text = sample.text[: len(sample.text) * step // (4 + sample.index)]
        return Update(sample.index, text, step, ("draft",), sample.mean_logprob, step * self.step_s,
                      "stop" if done else None, (len(text),))  # fmt: skip


@pytest.fixture
def live(tmp_path):
    ctx = make_context(Settings(_env_file=None, data_dir=tmp_path / "data", reap_interval_s=0.2))
    engine = StreamingEngine()
    ctx.load_engine, ctx.make_grader = (lambda config, on_progress: engine), FakeGrader
    with Embedded(ctx, "test"):
        rows = [{"task_id": f"add/{i}", "prompt": f'def add(a, b):\n    """Sum {i}."""\n', "entry_point": "add",
                 "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n", "canonical_solution": RIGHT}
                for i in range(3)]  # fmt: skip
        file = tmp_path / "additions.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
        import_file(ctx, file)
        server = create_server(create_app(ctx), host="127.0.0.1", port=0, threads=8)
        threading.Thread(target=server.run, daemon=True).start()
        yield f"http://127.0.0.1:{server.effective_port}"
        server.close()
    ctx.database.dispose()


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def test_a_completion_fills_its_lanes_then_ranks_and_judges(live, page):
    page.goto(live + "/complete")
    page.get_by_label("Prompt", exact=True).fill('def add(a, b):\n    """Sum."""\n')
    page.get_by_text("Tests (optional)").click()
    page.get_by_label("Test", exact=True).fill("assert add(1, 2) == 3")
    page.get_by_label("Samples").fill("3")
    page.get_by_role("button", name="Complete").click()
    page.wait_for_url(re.compile(r"/complete/[0-9a-f-]{36}"))
    lanes = page.locator("[data-lane]")
    assert lanes.count() == 3
    lanes.first.locator("[data-text]").filter(has_text="ret").wait_for()
    page.locator(".lane.stop").first.wait_for()
    page.locator(".lane .sq.pass").first.wait_for()
    page.get_by_text("3 of 3 finished within").wait_for()
    assert page.locator(".lane .sq.wrong").count() == 1
    assert page.locator(".lane.chosen .place").inner_text() == "ranked 1st"
    assert page.get_by_text("2 of 3 passed").is_visible()
    wrong, right = page.locator(".lane.wrong .run").first, page.locator(".lane.pass .run").first
    colour = "bar => getComputedStyle(bar).fill"
    assert wrong.evaluate(colour) != right.evaluate(colour)
    page.reload()
    assert "return a + b" in page.locator(".lane-text").first.inner_text()


def test_a_run_is_followed_from_submission_to_its_figures(live, page):
    page.goto(live + "/runs/new")
    page.get_by_label("Dataset").select_option("additions")
    page.get_by_label("Samples per task").fill("2")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}"))
    page.get_by_role("group", name="Progress").wait_for()
    page.get_by_text("Pass against the budget").wait_for()
    page.get_by_role("link", name="Run again with changes").wait_for()
    assert page.get_by_role("group", name="Progress").count() == 0
    assert "100.0" in page.locator(".scores").first.inner_text()
