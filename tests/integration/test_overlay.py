"""An overlay reads both databases alike, and its figures equal the page of two runs, which reads them another way."""

from __future__ import annotations

import pytest

from app.comparison.matrix import build_matrix
from app.site.factory import create_app
from tests.app.comparison.reading import lay_over, lines_of
from tests.app.world import World


def test_figures_and_cells_are_the_same_as_those_of_compare(ctx):
    world = World(ctx, create_app(ctx))
    a, b = world.add_run("a", skill=0.3, limit=20), world.add_run("b", skill=0.6, limit=25)
    client = world.client
    for budget in (2, 4, 9):
        compared = client.get(f"/api/v1/compare?reference={a}&other={b}&budget={budget}").get_json()
        lines, rows = lines_of(world, a, b, budget=budget), build_matrix(lay_over(world, a, b), budget).rows
        for figure, outcomes in (("pass_first", ("first",)), ("pass_all", ("first", "any"))):
            first, second = (getattr(line, figure) for line in lines)
            assert first.share == pytest.approx(compared[figure]["b"])
            assert second.difference.delta == pytest.approx(compared[figure]["delta"])
            solved = [[cell.outcome in outcomes for cell in row.cells] for row in rows]
            lost = [row.task_id for row, (of_a, of_b) in zip(rows, solved, strict=True) if of_a and not of_b]
            assert sorted(lost) == sorted(compared[figure]["losses"])
    page = client.get(f"/overlay/{a},{b}/task?id=HumanEval/3&budget=4")
    assert page.status_code == 200
