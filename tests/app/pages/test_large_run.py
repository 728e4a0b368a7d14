"""Pages of a run of many samples read counts and short columns in SQL, and show a part of what there is."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from app.runs import pages
from app.runs.repository import get_run, load_measured_tasks, load_tasks_with_samples
from app.samples.models import Sample
from tests.large_run import add_large_run

N_TASKS, N = 24, 60


@pytest.fixture
def run_id(world):
    return add_large_run(world.context, N_TASKS, N)


@pytest.fixture
def work(world):
    """The statements that were executed, and how many mapped samples were made of their rows."""
    found = {"statements": [], "samples": 0}

    def execute(connection, cursor, statement, *rest):
        found["statements"].append(statement)

    def load(target, context):
        found["samples"] += 1

    event.listen(world.context.database.engine, "before_cursor_execute", execute)
    event.listen(Sample, "load", load)
    yield found
    event.remove(world.context.database.engine, "before_cursor_execute", execute)
    event.remove(Sample, "load", load)


@pytest.mark.parametrize("tab", ["curve", "tasks", "failures", "timing", "config"])
def test_a_tab_of_a_run_loads_no_samples_and_no_texts(world, run_id, work, tab):
    page = world.client.get(f"/runs/{run_id}?tab={tab}")
    assert page.status_code == 200
    assert work["samples"] == 0
    assert not [statement for statement in work["statements"] if "samples.raw" in statement]
    assert len(work["statements"]) < 25
    if tab not in ("tasks", "failures"):  # these count samples, and do not read them
        assert not [s for s in work["statements"] if "samples.mean_logprob" in s]


def test_the_tasks_are_on_pages_and_a_task_shows_its_first_squares(world, run_id, monkeypatch):
    monkeypatch.setattr(pages, "TASKS_OF_PAGE", 10)
    shown = [world.client.get(f"/runs/{run_id}?tab=tasks&page={page}").text for page in (1, 2, 3)]
    assert [text.count('data-label="Tokens"') for text in shown] == [10, 10, 4]
    assert "and 12 more" in shown[0]
    assert "page 2 of 3" in shown[1]
    assert 'rel="prev"' not in shown[0]
    assert 'rel="next"' not in shown[2]
    assert world.client.get(f"/runs/{run_id}?tab=tasks&page=99").text.count('data-label="Tokens"') == 4
    assert world.client.get(f"/runs/{run_id}?tab=tasks&page=none").text.count('data-label="Tokens"') == 10
    assert f'All <span class="num">{N_TASKS}</span>' in " ".join(shown[2].split())


def test_a_task_shows_its_first_texts_and_all_on_request(world, run_id, work, monkeypatch):
    monkeypatch.setattr(pages, "TEXTS_OF_TASK", 5)
    page = world.client.get(f"/runs/{run_id}/tasks/HumanEval/3").text
    assert work["samples"] == N  # of this task alone
    assert page.count('<article class="sample') == 5
    assert "The first 5 are shown" in page
    assert "4 of 24" in page
    assert "HumanEval/2</a>" in page
    everything = world.client.get(f"/runs/{run_id}/tasks/HumanEval/3?all=1").text
    assert everything.count('<article class="sample') > 40


def test_the_walk_through_a_filter_reads_no_texts_of_other_tasks(world, run_id, work):
    page = world.client.get(f"/runs/{run_id}/tasks/HumanEval/3?show=missed").text
    assert "passed but not chosen" in page or "4 of 24" in page
    assert work["samples"] == N


def test_measured_tasks_read_as_stored_ones(world, run_id):
    with world.context.database.read() as session:
        measured, stored = load_measured_tasks(session, run_id), load_tasks_with_samples(session, run_id)
        names = ("run_task_id", "index", "n_tokens", "mean_logprob", "finish_reason", "finished_s", "n_rounds",
                 "n_accepted", "verdict", "trust")  # fmt: skip
        assert [row.position for row in measured] == list(range(N_TASKS))
        for light, whole in zip(measured, stored, strict=True):
            assert (light.id, light.task.task_id, light.state, light.wall_s) == (
                whole.id, whole.task.task_id, whole.state, whole.wall_s
            )  # fmt: skip
            for name in names:
                assert [getattr(s, name) for s in light.samples] == [getattr(s, name) for s in whole.samples]
        assert get_run(session, run_id).figures.samples == N_TASKS * N


def test_the_counts_read_an_index_and_no_rows(world, run_id):
    with world.context.database.read() as session:
        plans = session.connection().exec_driver_sql(
            "EXPLAIN QUERY PLAN SELECT count(*), count(verdict), sum(n_tokens) FROM samples WHERE run_id = ?",
            (run_id.hex,),
        )
        assert "COVERING INDEX ix_samples_measured" in " ".join(str(row) for row in plans)
