"""The slider computes in the browser what the server computes for the same budget."""

from __future__ import annotations

import json
import random
import subprocess

import pytest
from deno import find_deno_bin
from hypothesis import given
from hypothesis import strategies as st

from app.factory import STATIC
from app.leaderboard.entries import Entries, at_millisecond
from app.runs.figures import graded_outcomes
from app.runs.repository import tasks_without_texts
from evaluation.metrics import pass_all, pass_first, wilson

PROGRAM = """
import { countsAt, milliseconds, paretoFront, ranks, summed, wilson } from "./statistics.js";
const cases = JSON.parse(Deno.args[0]);
const [first, lost, all] = cases.passes.map(summed);
const passes = { n: cases.n, first, lost, all };
console.log(JSON.stringify({
  wilson: cases.wilson.map(([k, n]) => wilson(k, n)),
  counts: cases.budgets.map((budget) => countsAt(passes, budget)),
  ranks: ranks(cases.shares),
  milliseconds: cases.budgets.map(milliseconds),
  front: paretoFront(cases.points).map((point) => point.id),
}));
"""


@pytest.fixture
def compute(tmp_path):
    """Calls the module of the pages with these cases."""
    (tmp_path / "statistics.js").write_bytes((STATIC / "js/leaderboard/statistics.js").read_bytes())
    (tmp_path / "program.js").write_text(PROGRAM)

    def run(**cases):
        words = [find_deno_bin(), "run", "--no-config", "--quiet", "program.js", json.dumps(cases)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_the_page_and_the_server_agree(compute):
    dice = random.Random(1)
    trials = [(dice.randint(0, n), n) for n in (1, 7, 164, 500) for _ in range(20)]
    shares = [{"first": f, "all": a} for f, a in ((0.5, 0.6), (0.7, 0.7), (0.5, 0.6), (0.5, 0.9), (0, 0))]
    points = [{"id": i, "latency": x, "share": y} for i, (x, y) in enumerate(((3, 0.5), (1, 0.2), (2, 0.2), (4, 0.9)))]
    found = compute(wilson=trials, passes=[[], [], []], n=1, budgets=[0.57, 7.2, 12.3456], shares=shares, points=points)
    for (k, n), (low, high) in zip(trials, found["wilson"], strict=True):
        assert (low, high) == pytest.approx(wilson(k, n), abs=1e-12)
    assert found["ranks"] == [3, 1, 3, 2, 5]
    assert found["front"] == [1, 0, 3]
    assert found["milliseconds"] == [570, 7200, 12346]


def test_the_slider_reads_the_definition_at_every_budget(world, compute):
    """The run's budgets, its samples' times and what is between them, in the whole milliseconds that the page names."""
    run_id = world.add_run("run", n=4, limit=30, skill=0.6, pace=1.0, budget_s=9.87654)
    with world.context.database.read() as session:
        (entry,) = Entries().read(session)
        outcomes = graded_outcomes(tasks_without_texts(session, run_id))
    dice = random.Random(2)
    ends = [at_millisecond(o.finished_s) for o in outcomes if o.finished_s is not None]
    budgets = [ms / 1000 for end in ends for ms in (end - 1, end)] + [round(dice.uniform(0, 20), 3) for _ in range(200)]
    assert entry.first_lost, "a later sample was chosen and failed"
    passes = [[int(ms) for ms in of.split()] for of in (entry.first_gained, entry.first_lost, entry.all_gained)]
    found = compute(wilson=[], passes=passes, n=30, budgets=budgets, shares=[], points=[])
    for budget, passed in zip(budgets, found["counts"], strict=True):
        within = min(budget, 9.87654)
        assert passed["first"] / 30 == pass_first(outcomes, within)
        assert passed["all"] / 30 == pass_all(outcomes, within)
    assert len({passed["first"] for passed in found["counts"]}) > 5


@given(st.floats(0.0005, 600))
def test_a_millisecond_holds_a_time_where_the_seconds_do(seconds):
    """Whole milliseconds compare as the seconds that they stand for."""
    first = at_millisecond(seconds)
    assert (first - 1) / 1000 < seconds <= first / 1000
