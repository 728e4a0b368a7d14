"""One chart never mixes tasks, datasets or devices; runs over few tasks stand apart and say so."""

from __future__ import annotations

import json

import pytest

from app.core.states import RunState
from app.datasets import service
from app.leaderboard import board
from app.leaderboard.entries import LeaderboardCache
from app.leaderboard.service import rank_runs
from app.runs import figures
from app.runs.repository import find_run
from evaluation.languages import registry


@pytest.fixture
def groups(world):
    """The groups of the page as lists of names, with whether their runs compare."""

    def read(**options):
        with world.context.database.read() as session:
            rows = rank_runs(LeaderboardCache().read(session), 5.0)
            found, _ = board.arrange_groups(rows, 5.0, "first", **options)
        return [(group.compares, sorted(row.run.name for row in group.rows)) for group in found]

    return read


def test_runs_over_the_same_tasks_share_a_chart_and_others_do_not(world, groups):
    for name in ("whole a", "whole b"):
        world.add_run(name, limit=None, n=1)
    for name, limit in (("18 a", 18), ("18 b", 18), ("only 7", 7), ("only 9", 9)):
        world.add_run(name, limit=limit, n=1)
    world.add_run("stopped", limit=None, n=1, state=RunState.INTERRUPTED, done=30)
    world.add_run("elsewhere", limit=18, n=1, device="CPU")
    found = groups(all_rows=False)
    assert found == [
        (True, ["whole a", "whole b"]),
        (True, ["18 a", "18 b"]),
        (False, ["only 7", "only 9", "stopped"]),
        (False, ["elsewhere"]),
    ]
    page = " ".join(world.client.get("/leaderboard").get_data(as_text=True).split())
    assert "humaneval, 18 of 164 tasks, on NVIDIA H100 80GB HBM3" in page
    assert page.count("data-chart ") == 1
    assert "7 of 164 tasks" in page


def test_as_many_tasks_are_not_the_same_tasks(world, groups):
    world.add_run("first ten", limit=10, n=1)
    world.add_run("ten others", limit=12, n=1)
    with world.context.database.session() as session:
        run = find_run(session, "ten others")
        for task in run.tasks[:2]:
            session.delete(task)
        session.flush()
        figures.store_measurement(session, run, figures.compute_measurement(session, run))
    found = groups(all_rows=False)
    assert found == [(False, ["first ten", "ten others"])]


def test_a_run_that_stopped_compares_with_one_that_graded_the_same_tasks(world, groups):
    world.add_run("twelve", limit=12, n=1)
    world.add_run("stopped after twelve", limit=None, n=1, state=RunState.INTERRUPTED, done=12)
    assert groups(all_rows=False) == [(True, ["stopped after twelve", "twelve"])]


def test_the_only_run_has_its_chart(world, groups):
    world.add_run("demo", limit=26, n=1)
    assert groups(all_rows=False) == [(True, ["demo"])]


def dataset_in(world, language):
    """A dataset of two tasks in another language."""
    signature = {"name": "add", "parameters": [{"name": "a", "type": "int"}], "returns": "int"}
    rows = [
        {"task_id": f"add/{number}", "language": language, "prompt": "function add(a) {\n", "signature": signature,
         "cases": [{"args": ["1"], "result": "2"}]}
        for number in range(2)
    ]  # fmt: skip
    service.import_bytes(world.context, "\n".join(map(json.dumps, rows)).encode(), f"two-{language}", "two.jsonl")
    return service.require_dataset(world.context, f"two-{language}")


def test_a_run_in_another_language_stands_beside_python_and_ranks_only_with_its_own(world, groups):
    for name in ("python a", "python b"):
        world.add_run(name, limit=None, n=1)
    for language in registry.LANGUAGES:
        for letter in "ab":
            dataset = dataset_in(world, language)
            world.add_run(f"{language} {letter}", limit=None, n=1, dataset=dataset, toolchain="node 24.19.0")
    found = groups(all_rows=False)
    assert sorted(found) == sorted((True, [f"{name} a", f"{name} b"]) for name in ("python", *registry.LANGUAGES))
    rows = world.client.get("/api/v1/leaderboard?budget=5").json["rows"]
    assert {(row["dataset"], row["toolchain"]) for row in rows} == {
        ("humaneval", ""), *((f"two-{language}", "node 24.19.0") for language in registry.LANGUAGES)
    }  # fmt: skip
    assert {row["rank"] for row in rows} == {1, 2}
    assert "judged with node 24.19.0" in world.client.get("/leaderboard").get_data(as_text=True)
