"""The slider computes in the browser what the server computes for the same budget."""

from __future__ import annotations

import json
import random
import subprocess

import pytest
from deno import find_deno_bin

from app.factory import STATIC
from evaluation.metrics import wilson

PROGRAM = """
import { countsAt, paretoFront, ranks, roundedUp, wilson } from "./statistics.js";
const cases = JSON.parse(Deno.args[0]);
console.log(JSON.stringify({
  wilson: cases.wilson.map(([k, n]) => wilson(k, n)),
  counts: cases.budgets.map((budget) => countsAt(cases.passes, budget)),
  ranks: ranks(cases.shares),
  rounded: cases.budgets.map(roundedUp),
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


def test_the_page_and_the_server_agree_at_every_budget(compute):
    dice = random.Random(1)
    trials = [(dice.randint(0, n), n) for n in (1, 7, 164, 500) for _ in range(20)]
    passes = {"n": 10, "cap": 8, "grid": [0.5, 2, 8], "first": [1, 4, 3], "all": [2, 6, 7]}
    shares = [{"first": f, "all": a} for f, a in ((0.5, 0.6), (0.7, 0.7), (0.5, 0.6), (0.5, 0.9), (0, 0))]
    budgets = [0.4, 0.5, 1.99, 2, 7.9, 8, 100]
    points = [{"id": i, "latency": x, "share": y} for i, (x, y) in enumerate(((3, 0.5), (1, 0.2), (2, 0.2), (4, 0.9)))]
    found = compute(wilson=trials, passes=passes, shares=shares, budgets=budgets, points=points)
    for (k, n), (low, high) in zip(trials, found["wilson"], strict=True):
        assert (low, high) == pytest.approx(wilson(k, n), abs=1e-12)
    assert [pair["first"] for pair in found["counts"]] == [0, 1, 1, 4, 4, 3, 3]
    assert [pair["all"] for pair in found["counts"]] == [0, 2, 2, 6, 6, 7, 7]
    assert found["ranks"] == [3, 1, 3, 2, 5]
    assert found["front"] == [1, 0, 3]
    assert found["rounded"] == budgets


def test_a_rounded_budget_is_never_below_the_point_that_it_stands_for(compute):
    dice = random.Random(2)
    budgets = sorted(10 ** dice.uniform(-2, 3) for _ in range(200))
    passes = {"n": 1, "cap": 1e6, "grid": budgets, "first": budgets, "all": budgets}
    rounded = compute(wilson=[], passes=passes, shares=[], budgets=budgets, points=[])["rounded"]
    for budget, shown in zip(budgets, rounded, strict=True):
        assert budget * (1 - 1e-8) <= shown <= budget * 1.01
