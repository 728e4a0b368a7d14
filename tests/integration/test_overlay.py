"""An overlay reads both databases alike, and its figures equal the page of two runs, which reads them another way."""

from __future__ import annotations

import pytest

from app.comparison.matrix import build_matrix
from tests.app.comparison.reading import lay_over
from tests.app.world import World


def test_figures_and_cells_are_the_same_as_those_of_compare(ctx):
    world = World(ctx)
    a, b = world.add_run("a", skill=0.3, limit=20), world.add_run("b", skill=0.6, limit=25)
    client = world.client
    for budget in (2, 4, 9):
        compared = client.get(f"/api/v1/compare?reference={a}&other={b}&budget={budget}").get_json()
        overlay = lay_over(world, a, b)
        rows = build_matrix(overlay, budget).rows
        for figure, outcomes in (("first", ("first",)), ("all", ("first", "any"))):
            wanted = compared[f"pass_{figure}"]
            assert overlay.paired_runs.compute_share(figure, 0, budget) == pytest.approx(wanted["b"])
            assert overlay.paired_runs.decide(figure, 1, 0, budget).difference == pytest.approx(wanted["delta"])
            solved = [[cell.outcome in outcomes for cell in row.cells] for row in rows]
            lost = [row.task_id for row, (of_a, of_b) in zip(rows, solved, strict=True) if of_a and not of_b]
            assert sorted(lost) == sorted(wanted["losses"])
    page = client.get(f"/overlay/{a},{b}/task?id=HumanEval/3&budget=4")
    assert page.status_code == 200
