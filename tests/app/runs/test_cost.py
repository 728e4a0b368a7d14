"""What a right answer costs: the decoding of all tasks, divided by the tasks whose chosen sample passes."""

from __future__ import annotations

import pytest

from app.runs.figures import compute_figures
from app.runs.models import Run, RunTask
from app.runs.repository import get_run, load_measured_tasks
from app.runs.results import Figures


def figures_of(world, run_id) -> Figures:
    with world.context.database.read() as session:
        return session.get_one(Run, run_id).measured


def test_wrong_answers_cost_as_much_as_right_ones(world):
    run_id = world.add_run("some", limit=8, n=1, skill=1)
    found = figures_of(world, run_id)
    with world.context.database.read() as session:
        walls = [task.wall_s for task in load_measured_tasks(session, get_run(session, run_id).id)]
    assert found.seconds_per_right == pytest.approx(sum(walls) / round(8 * found.pass_first))
    assert found.peak_memory_bytes is None or found.peak_memory_bytes > 0


def test_a_run_without_right_answers_has_no_cost(world):
    assert figures_of(world, world.add_run("none", limit=2, n=1, skill=0)).seconds_per_right is None


def test_a_task_of_unknown_duration_leaves_the_cost_unknown(world):
    run_id = world.add_run("some", limit=2, n=1, skill=1)
    with world.context.database.session() as session:
        tasks = load_measured_tasks(session, run_id)
        session.get_one(RunTask, tasks[0].id).wall_s = None
        assert compute_figures(get_run(session, run_id), tasks).seconds_per_right is None
