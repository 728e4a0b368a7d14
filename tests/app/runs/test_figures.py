"""The figures of a run count what they say, and come back from the database as they were written."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from app.core.states import SANDBOX_ERROR
from app.runs.figures import compute_figures
from app.runs.models import Run, RunTask
from app.runs.repository import get_run, load_measured_tasks
from app.runs.results import NO_FIGURES, Figures
from app.runs.service import submit


def test_a_task_without_verdicts_is_no_fault_of_the_sandbox(world):
    """A completion that no worker began in time has samples that nobody judged."""
    with world.context.database.session() as session:
        run = session.get(Run, world.add_run("one", limit=3))
        unjudged, failed, _ = run.tasks
        for sample in unjudged.samples:
            sample.verdict = None
        failed.samples[0].verdict = SANDBOX_ERROR
        figures = compute_figures(run, run.tasks)
        assert (figures.tasks, figures.tasks_sandbox_error) == (1, 1)


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


def test_figures_are_stored_without_those_that_were_never_set(ctx, spec):
    run_id = submit(ctx, spec(), handover=True)
    with ctx.database.session() as session:
        assert session.get(Run, run_id).measured == NO_FIGURES
        session.get(Run, run_id).figures = Figures(tasks=3, pass_first_interval=(0.25, 0.75), pass_all=None)
    with ctx.database.read() as session:
        stored = session.execute(text("SELECT figures FROM runs")).scalar_one()
        assert stored.replace(" ", "") == '{"tasks":3,"pass_first_interval":[0.25,0.75],"pass_all":null}'
        assert session.get(Run, run_id).figures.pass_first_interval == (0.25, 0.75)
