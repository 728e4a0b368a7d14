"""Nobody is called better where the speed of the machine could explain it: Compare, REST and the command line."""

from __future__ import annotations

import json
import uuid

import pytest
from click.testing import CliRunner
from sqlalchemy import update

from app.cli.main import cli
from app.comparison.pair import compare_runs, load_stored_run
from app.runs.models import Run, RunTask
from app.runs.repository import get_run
from app.samples.models import Sample
from app.studies.models import Study, StudyArm
from tests.app.pages.test_pages import text_of

BUDGET_S = 4.0
N_TASKS = 40


@pytest.fixture
def pair(world):
    """Makes a fast and a slow run whose every sample passes: after 2 seconds, and after 2 * `slower` seconds."""

    def make(*, slower: float = 3.0, fast=None, slow=None) -> tuple[uuid.UUID, uuid.UUID]:
        ids = []
        for name, end, options in (("fast", 2.0, fast), ("slow", 2.0 * slower, slow)):
            run_id = world.add_run(name, limit=N_TASKS, n=1, budget_s=10, **(options or {}))
            with world.context.database.session() as session:
                values = {"finished_s": end, "finish_reason": "stop", "verdict": "passed"}
                session.execute(update(Sample).where(Sample.run_id == run_id).values(**values))
            ids.append(run_id)
        return ids[0], ids[1]

    return make


def compared(world, a, b, budget=BUDGET_S):
    with world.context.database.read() as session:
        return compare_runs(session, *(load_stored_run(session, get_run(session, run)) for run in (a, b)), budget)


def test_a_difference_beyond_what_the_machine_explains_stands(world, pair):
    fast, slow = pair()
    found = compared(world, slow, fast)
    assert (found.first.delta, found.conditions.time_bound, found.conditions.in_turn) == (1.0, True, False)
    assert found.first.withheld is found.all.withheld is None
    assert "The interval excludes 0: unlikely to be chance" in text_of(
        world.client.get(f"/overlay/{slow},{fast}?budget={BUDGET_S:g}")
    )


@pytest.mark.parametrize(
    ("slow", "factor"),
    [
        ({"lost": 0.6}, 2.5),  # others took 60 % of the machine from the loser
        ({"verifies": (0.05, 0.05)}, 2.5),  # the same verify was slower from the start
        ({"verifies": (0.02, 0.06)}, 3.0),  # the machine became slower during the run
    ],
)
def test_a_run_on_a_busy_machine_is_not_called_worse(world, pair, slow, factor):
    fast, slow_run = pair(slow=slow)
    for a, b in ((slow_run, fast), (fast, slow_run)):
        found = compared(world, a, b)
        assert found.first.p < 0.001
        assert "the speed of the machine could explain it" in found.first.withheld
        assert "bassline study run" in found.first.withheld
        assert found.conditions.machine_factor > factor
        page = text_of(world.client.get(f"/overlay/{a},{b}?budget={BUDGET_S:g}"))
        assert "The interval excludes 0, but the runs were not measured in turn" in page
        assert "is better" not in page
        assert "beyond chance" not in page


def test_what_slowed_the_winner_does_not_explain_its_lead(world, pair):
    fast, slow = pair(fast={"lost": 0.6})
    assert compared(world, slow, fast).first.withheld is None


def test_runs_of_another_model_are_compared_by_the_memory_read(world, pair):
    fast, slow = pair(slow={"verifies": (0.05, 0.05)})  # its memory read is slower as well (tests/app/world.py)
    with world.context.database.session() as session:
        run = get_run(session, slow)
        run.provenance = {**run.provenance, "target_sha256": "0" * 64}
    assert compared(world, slow, fast).first.withheld is not None


def test_an_unknown_clock_withholds_only_where_time_matters(world, pair):
    fast, slow = pair(slow={"lost": None, "verifies": ()})
    found = compared(world, slow, fast)
    assert "how busy the machine was is not known of slow." in found.first.withheld
    assert found.conditions.machine_factor is None
    with world.context.database.session() as session:
        session.execute(update(Sample).where(Sample.run_id == slow).values(finished_s=1.0, verdict="wrong_answer"))
    found = compared(world, slow, fast)
    assert (found.first.delta, found.conditions.time_bound, found.first.withheld) == (1.0, False, None)


def test_a_sample_that_the_deadline_cut_makes_the_result_depend_on_time(world, pair):
    fast, slow = pair(slower=1.0)
    assert not compared(world, slow, fast).conditions.time_bound
    with world.context.database.session() as session:
        one = session.query(Sample).where(Sample.run_id == slow).first()
        one.finish_reason, one.finished_s = "deadline", 1.0
    assert compared(world, slow, fast).conditions.time_bound


def test_tasks_that_only_one_run_has_do_not_count(world, pair):
    fast, slow = pair()
    with world.context.database.session() as session:
        last = session.query(RunTask).where(RunTask.run_id == slow, RunTask.position == N_TASKS - 1).one()
        last.others_cpu_s = last.capacity_s
        gone = session.query(RunTask).where(RunTask.run_id == fast, RunTask.position == N_TASKS - 1).one()
        gone.state = "failed"
    assert compared(world, slow, fast).first.withheld is None


def test_arms_of_one_study_need_no_caution(world, pair):
    fast, slow = pair(slow={"lost": 0.6})
    with world.context.database.session() as session:
        dataset_id = session.get_one(Run, fast).dataset_id
        study = Study(name="both", dataset_id=dataset_id, budget_s=10, seed=0)
        study.arms = [StudyArm(run_id=run_id, position=i, name=str(i)) for i, run_id in enumerate((fast, slow))]
        session.add(study)
    found = compared(world, slow, fast)
    assert (found.conditions.in_turn, found.first.withheld, found.conditions.machine_factor) == (True, None, 1.0)


def test_rest_and_the_command_line_say_the_same(world, pair, monkeypatch):
    fast, slow = pair(slow={"lost": 0.6})
    monkeypatch.setenv("BASSLINE_DATABASE_URL", world.context.settings.effective_database_url)
    words = ["runs", "compare", str(slow), str(fast), "--budget", f"{BUDGET_S:g}"]
    printed = json.loads(CliRunner().invoke(cli, [*words, "--json", "-"], catch_exceptions=False).stdout)
    query = {"reference": slow, "other": fast, "budget": BUDGET_S}
    assert world.client.get("/api/v1/compare", query_string=query).json == printed
    assert (printed["time_bound"], printed["measured_in_turn"]) == (True, False)
    assert printed["withheld"] == printed["pass_first"]["withheld"] is not None
    table = " ".join(CliRunner().invoke(cli, words, catch_exceptions=False).stdout.split())
    assert "Pass@First is undecided" in table
    assert "bassline study run" in table
