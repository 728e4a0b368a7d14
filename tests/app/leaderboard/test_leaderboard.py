"""The leaderboard reads what has changed and nothing twice, and a long one shows its first rows and says so."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from sqlalchemy import event

from app.cli.main import cli
from app.core.states import RunState
from app.leaderboard import board
from app.leaderboard.entries import LeaderboardCache, label_entries
from app.leaderboard.service import rank_runs
from app.runs import transitions
from app.runs.figures import build_outcome
from app.runs.labels import ROOM
from app.runs.repository import load_measured_tasks
from app.runs.service import delete
from app.site.factory import create_app
from evaluation.outcomes import compute_pass_all, compute_pass_first


@contextmanager
def selects(world):
    """The SELECTs that are sent meanwhile."""
    sent: list[str] = []

    def note(_connection, _cursor, statement, *_):
        if statement.startswith("SELECT"):
            sent.append(statement)

    event.listen(world.context.database.engine, "before_cursor_execute", note)
    yield sent
    event.remove(world.context.database.engine, "before_cursor_execute", note)


@pytest.fixture
def entries(world):
    """Reads the runs on the leaderboard again and again with one cache."""
    cache = LeaderboardCache()

    def read():
        with world.context.database.read() as session:
            return cache.read(session)

    return read


@pytest.fixture
def labels(entries):
    """The label of each run by its name."""
    return lambda: {row.run.name: row.run.unranked_reason for row in rank_runs(entries())}


def test_what_ends_goes_on_or_is_deleted_is_noticed(world, labels):
    world.add_run("first", limit=1, n=1)
    assert labels() == {"first": "1 of 164 tasks"}
    stopped = world.add_run("stopped", limit=3, n=1, state=RunState.INTERRUPTED, done=2)
    assert labels()["stopped"] == "interrupted"
    transitions.reopen(world.context, stopped)
    assert labels()["stopped"] == "queued"
    transitions.interrupt(world.context, stopped)
    assert labels()["stopped"] == "interrupted"
    delete(world.context, stopped)
    assert labels() == {"first": "1 of 164 tasks"}


def test_figures_of_a_run_that_ended_again_are_the_new_ones(world, entries):
    run = world.add_run("stopped", limit=3, n=1, state=RunState.INTERRUPTED, done=2)
    (before,) = entries()
    with world.context.database.session() as session:
        session.connection().exec_driver_sql("DELETE FROM run_tasks WHERE position = 1")
    transitions.reopen(world.context, run)
    transitions.interrupt(world.context, run)
    (after,) = entries()
    assert (before.n_tasks, after.n_tasks) == (2, 1)


def test_a_request_reads_only_the_runs_that_changed(world):
    for name in "abc":
        world.add_run(name, limit=1, n=1)
    world.client.get("/api/v1/leaderboard")
    with selects(world) as again:
        world.client.get("/api/v1/leaderboard")
    assert len(again) == 1
    assert "curves.budgets" not in again[0]
    world.add_run("d", limit=1, n=1)
    with selects(world) as changed:
        world.client.get("/api/v1/leaderboard")
    assert len(changed) == 2
    assert "runs.id IN (?)" in changed[1]


def test_two_applications_in_one_process_keep_their_entries_apart(make_world):
    world = make_world()
    world.add_run("here", limit=1, n=1)
    assert [row["name"] for row in world.client.get("/api/v1/leaderboard").json["rows"]] == ["here"]
    other = create_app(world.context)
    with selects(world) as first:
        other.test_client().get("/api/v1/leaderboard")
    assert len(first) == 2, "an application of its own reads for itself"


def test_a_page_of_a_run_reads_no_text_of_its_samples(world):
    run = world.add_run("one", limit=2)
    for tab in ("curve", "tasks", "failures", "timing", "config"):
        with selects(world) as sent:
            assert world.client.get(f"/runs/{run}?tab={tab}").status_code == 200
        assert any("FROM samples" in statement for statement in sent)
        # The failures show the line that failed: of the traceback, or of a program that could not be parsed.
        texts = ("raw",) if tab == "failures" else ("raw", "program", "traceback")
        assert not any(f"samples.{text}" in statement for statement in sent for text in texts)


@pytest.fixture
def three_runs(world, monkeypatch):
    """Three runs of a group that shows two of them."""
    monkeypatch.setattr(board, "ROWS_SHOWN", 2)
    for name, skill, pace in (("best", 0.9, 3.0), ("middle", 0.5, 2.0), ("quick", 0.1, 0.5)):
        world.add_run(name, limit=None, n=1, skill=skill, pace=pace)
    return world


def shown(page: str) -> list[tuple[int, str]]:
    """(rank, name) of the rows in their order."""
    rows = re.findall(r'data-rank>(\d+)</td>.*?class="name"[^>]*>([^<]+)<', page, re.DOTALL)
    return [(int(rank), name) for rank, name in rows]


def test_a_long_group_shows_its_first_rows_and_links_to_all(three_runs):
    page = three_runs.client.get("/leaderboard?budget=5").get_data(as_text=True)
    assert shown(page) == [(1, "best"), (2, "middle")]
    assert "These are the first 2 of 3 runs by Pass@First at a budget of 5 s" in " ".join(page.split())
    address = re.search(r'href="([^"]+)#group-1">Show all 3<', page)[1].replace("&amp;", "&")
    assert "budget=5" in address
    whole = three_runs.client.get(address).get_data(as_text=True)
    assert len(shown(whole)) == 3
    assert "These are the first" not in whole
    assert '<input type="hidden" name="rows" value="all">' in whole


def test_ranks_are_among_all_runs_of_the_group_not_those_shown(three_runs):
    page = three_runs.client.get("/leaderboard?sort=speed").get_data(as_text=True)
    assert shown(page) == [(3, "quick"), (2, "middle")]


def test_page_command_line_and_rest_show_the_same_ranks(world, monkeypatch):
    monkeypatch.setattr("app.cli.common.make_context", lambda: world.context)
    for name, skill, limit in (("best", 0.9, None), ("last", 0.2, None), ("part", 0.9, 20), ("other part", 0.5, 20)):
        world.add_run(name, limit=limit, n=1, skill=skill)
    expected = {"best": 1, "last": 2, "part": None, "other part": None}
    page = world.client.get("/leaderboard?budget=5").get_data(as_text=True)
    assert {name: rank for rank, name in shown(page)} == {"best": 1, "last": 2}
    assert all(f">{name}</a>" in page for name in expected)
    rows = world.client.get("/api/v1/leaderboard?budget=5").json["rows"]
    printed = json.loads(CliRunner().invoke(cli, ["leaderboard", "--budget", "5", "--json", "-"]).stdout)
    for found in (rows, printed):
        assert {row["name"]: row["rank"] for row in found} == expected


def test_past_the_longest_run_the_page_shows_its_budget_and_says_so(world):
    world.add_run("ten", n=1, limit=5)
    page = world.client.get("/leaderboard?budget=1e9").get_data(as_text=True)
    assert "No run was measured beyond 10 s. The page shows 10 s." in " ".join(page.split())
    assert re.search(r'name="budget"[^>]* value="10"', page)


@pytest.mark.parametrize("query", ["target=another", "dataset=humaneval&target=another"])
def test_a_rank_is_the_same_whatever_is_filtered(world, monkeypatch, query):
    world.add_run("best", limit=None, n=1, skill=0.9)
    world.add_run("middle", limit=None, n=1, skill=0.5, target="another")
    world.add_run("last", limit=None, n=1, skill=0.1)
    page = world.client.get(f"/leaderboard?budget=10&{query}").get_data(as_text=True)
    assert shown(page) == [(2, "middle")]
    assert "Ranks count all 3 runs, also those that the filters leave out, and hold for this budget only." in " ".join(
        page.split()
    )
    assert [row["rank"] for row in world.client.get(f"/api/v1/leaderboard?{query}").json["rows"]] == [2]
    monkeypatch.setattr("app.cli.common.make_context", lambda: world.context)
    words = [word.partition("=") for word in query.split("&")]
    options = [part for name, _, value in words for part in (f"--{name}", value)]
    result = CliRunner().invoke(cli, ["leaderboard", *options, "--json", "-"])
    assert [row["rank"] for row in json.loads(result.stdout)] == [2]


def test_a_hundred_runs_make_a_page_that_ends(world):
    for i in range(60):
        world.add_run(f"run {i}", limit=1, n=1, device=f"device {i % 2}")
    page = world.client.get("/leaderboard").get_data(as_text=True)
    assert page.count("data-run=") == board.ROWS_SHOWN + board.ROWS_OF_OTHERS
    assert page.count(">Show all 30<") == 2


def test_runs_that_begin_alike_are_told_apart_beside_their_curves(world, entries):
    for drafter, n, seed in (("none", 1, 1), ("none", 1, 2), ("ngram", 1, 1), ("ngram", 2, 1)):
        world.add_run("hf:organisation/model-with-a-long-name", drafter=drafter, n=n, seed=seed, limit=2)
    world.add_run("nightly", n=1, limit=2)
    labels = list(label_entries(entries()).values())
    assert "nightly" in labels
    assert {"ngram, n = 1", "ngram, n = 2"} <= set(labels)
    assert len({label[:ROOM] for label in labels}) == 5
    keys = re.findall(
        r'<li data-values="[^"]*" data-curve="[^"]+">.*?<span class="name">([^<]+)</span>',
        world.client.get("/leaderboard").get_data(as_text=True),
        re.DOTALL,
    )
    assert sorted(keys) == sorted(labels)


def test_an_empty_first_page_offers_the_reference_studies_and_says_what_is_at_work(world):
    page = world.client.get("/").get_data(as_text=True)
    assert 'type="submit">Load the reference studies</button>' in page
    assert "/runs/new?limit=8" in page.split("<main")[1]
    assert "bassline eval" not in page, "a server that runs owns the database"
    world.add_run("waiting", state=RunState.QUEUED, done=0, limit=1, n=1)
    assert "1 run is waiting or running" in world.client.get("/").get_data(as_text=True)
    for i in range(50):
        world.add_run(f"waiting {i}", state=RunState.QUEUED, done=0, limit=1, n=1)
    assert "51 runs are waiting or running" in world.client.get("/").get_data(as_text=True)


@pytest.mark.parametrize("budget", [0.9, 3.217, 7.2, 9.999])
def test_page_and_rest_show_the_figures_of_the_definition_at_any_budget(world, budget):
    run_id = world.add_run("run", n=4, limit=40, skill=0.6, pace=2.0)
    with world.context.database.read() as session:
        tasks = load_measured_tasks(session, run_id)
        outcomes = [build_outcome(task.task.task_id, sample) for task in tasks for sample in task.samples]
    first, every = compute_pass_first(outcomes, budget), compute_pass_all(outcomes, budget)
    (row,) = world.client.get(f"/api/v1/leaderboard?budget={budget}").json["rows"]
    assert (row["budget_s"], row["pass_first"], row["pass_all"]) == (budget, first, every)
    page = world.client.get(f"/leaderboard?budget={budget}").get_data(as_text=True)
    assert re.findall(r"data-share>([^<]+)", page)[:2] == [f"{100 * share:.0f} %" for share in (first, every)]
    answer = re.sub(r"<[^>]+>", "", world.client.get(f"/?budget={budget}").get_data(as_text=True))
    assert f"smollm2-135m answers {100 * first:.0f} % right within {budget} s" in answer
    curve = world.client.get(f"/api/v1/runs/{run_id}/curve").json
    reached = [i for i, at in enumerate(curve["budgets"]) if at <= budget]
    assert curve["pass_first"][reached[-1]] == first, "the curve holds from each of its budgets to the next"
    words = world.client.get(f"/runs/{run_id}?budget={budget}").get_data(as_text=True)
    card = r'<dd class="figure num">([^<]+) <span class="unit">%</span></dd>\s*<dd class="note num">([^<]+)'
    cards = re.findall(card, words)
    assert [value for value, _ in cards] == [f"{100 * share:.0f}" for share in (first, every)]
    assert all(note.endswith(f"40 tasks at {budget:g} s") for _, note in cards)
