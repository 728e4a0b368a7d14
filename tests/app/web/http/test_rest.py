"""What every endpoint shares: keys against doing twice, tags against sending twice, pages, limits; and the new ones."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.accounts.service import create_token
from app.core.broker import queues
from app.core.db.types import get_utc_time
from app.core.states import RunState, Scope, TaskState
from app.jobs.embedded import EmbeddedWorkers
from app.monitoring import health
from app.runs import service
from app.runs.models import Run, RunTask
from app.site.factory import create_app
from app.web.http.limits import BODY_BYTES
from app.workers import service as workers
from app.workers.models import Worker
from tests.fakes import RIGHT

BODY = {"target": "smollm2-135m", "dataset": "additions", "n": 2, "budget_s": 5}


@pytest.fixture
def client(ctx):
    return create_app(ctx).test_client()


@pytest.fixture
def finished(ctx, spec):
    """The ids of two runs that were worked to their end."""
    from app.runs import event_stream

    with EmbeddedWorkers(ctx, "test"):
        ids = [service.submit(ctx, spec(name=name)) for name in ("one", "two")]
        for run_id in ids:
            list(event_stream.follow_events(ctx, run_id))
    return ids


@pytest.mark.usefixtures("additions")
def test_what_has_not_changed_is_not_sent_again(client):
    address = client.post("/api/v1/runs", json=BODY).headers["Location"]
    tag = client.get(address).headers["ETag"]
    same = client.get(address, headers={"If-None-Match": tag})
    assert (same.status_code, same.data) == (304, b"")
    client.post(f"{address}/cancel")
    assert client.get(address, headers={"If-None-Match": tag}).status_code == 200


def walk(client, address: str, rows: str, **query) -> list[dict]:
    """All rows of a list, by its pages of one."""
    found, cursor = [], None
    while True:
        page = client.get(address, query_string={"limit": 1, **query, **({"cursor": cursor} if cursor else {})}).json
        found += page[rows]
        cursor = page["next"]
        if cursor is None:
            return found


def test_every_list_comes_in_pages_that_miss_and_repeat_nothing(client, finished):
    one, two = map(str, finished)
    assert [r["run"]["id"] for r in walk(client, "/api/v1/runs", "runs")] == [two, one]
    assert sorted(r["run"] for r in walk(client, "/api/v1/leaderboard", "rows")) == [one, two]
    samples = [(s["task_id"], s["index"]) for s in walk(client, f"/api/v1/runs/{one}/samples", "samples")]
    assert samples == [(f"add/{i}", j) for i in range(3) for j in range(2)]
    dataset = walk(client, "/api/v1/datasets", "datasets")[0]
    tasks = walk(client, f"/api/v1/datasets/{dataset['id']}", "tasks")
    assert [t["task_id"] for t in tasks] == [f"add/{i}" for i in range(4)]
    models = client.get("/api/v1/models").json["models"]
    assert walk(client, "/api/v1/models", "models") == models
    assert [w["alive"] for w in walk(client, "/api/v1/workers", "workers")] == [True]
    for address in ("runs", f"runs/{one}/samples", "models", f"datasets/{dataset['id']}"):
        assert client.get(f"/api/v1/{address}", query_string={"cursor": "¾.99999999999"}).status_code == 422


def test_samples_curve_export_and_comparison_of_runs(client, finished):
    one, two = map(str, finished)
    passed = walk(client, f"/api/v1/runs/{one}/samples", "samples", verdict="passed", task_id="add/1")
    assert [(s["index"], s["raw"]) for s in passed] == [(0, RIGHT)]
    curve = client.get(f"/api/v1/runs/{one}/curve").json
    assert (curve["budgets"][-1], curve["pass_first"][-1], curve["n_tasks"]) == (5.0, 1.0, 3)
    lines = client.get(f"/api/v1/runs/{one}/export").get_data(as_text=True).splitlines()
    assert [json.loads(line)["index"] for line in lines] == [0, 1] * 3
    table = client.get(f"/api/v1/runs/{one}/export?format=csv")
    assert table.mimetype == "text/csv"
    assert len(table.get_data(as_text=True).splitlines()) == 7
    compared = client.get("/api/v1/compare", query_string={"reference": one, "other": two, "budget": 1}).json
    assert (compared["pass_first"]["delta"], compared["pass_first"]["wins"], compared["budget_s"]) == (0.0, [], 1.0)
    assert client.get("/api/v1/compare", query_string={"reference": one, "other": two, "budget": 9}).status_code == 422


@pytest.mark.usefixtures("additions")
def test_a_run_that_has_not_ended_has_no_curve_yet(client):
    address = client.post("/api/v1/runs", json=BODY).headers["Location"]
    assert client.get(f"{address}/curve").status_code == 409


def upload(client, content: bytes, **fields):
    return client.post("/api/v1/datasets", data={"file": (io.BytesIO(content), "mine.jsonl"), **fields})


def test_a_dataset_is_uploaded_checked_and_stored_once(client):
    row = {
        "task_id": "add/0",
        "prompt": "def add(a, b):\n",
        "entry_point": "add",
        "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
        "canonical_solution": RIGHT,
    }
    made = upload(client, json.dumps(row).encode(), name="sums")
    assert made.status_code == 201
    assert client.get(made.headers["Location"]).json["tasks"][0]["prompt"] == row["prompt"]
    assert upload(client, json.dumps(row).encode(), name="sums").json["id"] == made.json["id"]
    large = json.dumps(row).encode() + b"\n" + b" " * BODY_BYTES
    assert upload(client, large).json["name"] == "mine"  # a file may be larger than another body
    for content, fields in (
        (b"not json", {}),
        (json.dumps(row | {"stop": ["\0"]}).encode(), {}),
        (json.dumps(row | {"task_id": "x" * 300}).encode(), {}),
        (json.dumps(row).encode(), {"name": "humaneval"}),
    ):
        assert upload(client, content, **fields).status_code == 422
    assert client.post("/api/v1/datasets", json={}).status_code == 415


@pytest.mark.usefixtures("additions")
def test_bodies_are_bounded(client):
    answer = client.post("/api/v1/runs", json=BODY | {"name": "x" * BODY_BYTES})
    assert answer.status_code == 413
    assert answer.content_type == "application/problem+json"
    assert "bytes" in answer.json["detail"]
    # without a length, the stream is cut off where the limit is
    endless = client.post(
        "/api/v1/runs",
        input_stream=io.BytesIO(b" " * (BODY_BYTES + 2)),
        content_type="application/json",
        environ_overrides={"wsgi.input_terminated": True},
    )
    assert endless.status_code == 413


@pytest.mark.usefixtures("additions")
@pytest.mark.parametrize("change", [{"name": "a\0b"}, {"target": "x" * 400}, {"target": "~nobody-at-all/model"}])
def test_what_no_database_or_file_system_can_hold_is_refused(client, change):
    answer = client.post("/api/v1/runs", json=BODY | change)
    assert answer.status_code == 422
    assert answer.json["errors"][0]["field"] == next(iter(change))


def test_callers_are_limited_each_on_their_own(ctx):
    limited = ctx.settings.model_copy(update={"require_tokens": True, "rate_limit": "3/minute"})
    client = create_app(dataclasses.replace(ctx, settings=limited)).test_client()
    one, two = ({"Authorization": f"Bearer {create_token(ctx, name, Scope.READ)}"} for name in "ab")
    assert [client.get("/api/v1/models", headers=one).status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = client.get("/api/v1/models", headers=one)
    assert refused.content_type == "application/problem+json"
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    assert client.get("/api/v1/models", headers=two).status_code == 200
    assert client.get("/api/v1/health/live").status_code == 200


def metric(client) -> dict[tuple[str, str], float]:
    text = client.get("/api/v1/metrics").get_data(as_text=True)
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_what_the_database_says(client, ctx, finished):
    found = metric(client)
    assert found["bassline_runs", "finished"] == 2
    assert found["bassline_recent_tasks", ""] == 6
    assert found["bassline_recent_samples", "passed"] == found["bassline_recent_samples", "wrong_answer"] == 6
    assert found["bassline_recent_drafted_tokens", ""] == 6 * 12
    assert found["bassline_recent_accepted_tokens", ""] == 2 * 12
    assert found["bassline_recent_acceptance_length", ""] == 2.0
    assert found["bassline_recent_budget_overruns", ""] == 0
    assert found["bassline_workers_alive", ""] == 1
    with ctx.database.session() as session:
        for row in session.query(RunTask):
            row.finished_at -= dt.timedelta(hours=1)
            row.wall_s = 6.5
    assert metric(client)["bassline_recent_tasks", ""] == 0


def test_queue_age_and_overruns(client, ctx, finished):
    with ctx.database.session() as session:
        run = session.get_one(Run, finished[0])
        run.state = RunState.RUNNING
        run.tasks[0].state, run.tasks[0].started_at = TaskState.QUEUED, None
        run.tasks[0].queued_at = get_utc_time() - dt.timedelta(seconds=90)
        run.tasks[1].wall_s = 6.5
    found = metric(client)
    assert 90 <= found["bassline_queue_age_seconds", "decode"] < 95
    assert found["bassline_queue_age_seconds", "grade"] == 0
    assert found["bassline_open_tasks", "queued"] == 1
    assert found["bassline_recent_budget_overruns", ""] == 1
    assert found["bassline_recent_budget_overrun_max_seconds", ""] == pytest.approx(1.5)


@pytest.fixture(autouse=True)
def fresh_readiness(monkeypatch):
    monkeypatch.setattr(health, "REUSE_S", 0.0)


def checks(client) -> dict[str, str]:
    answer = client.get("/api/v1/health/ready")
    assert answer.status_code == (200 if answer.json["status"] == "ready" else 503)
    return answer.json["checks"]


def test_not_ready_without_a_worker_or_with_one_that_fell_silent(client, ctx):
    assert "none has reported itself" in checks(client)["workers"]
    workers.report(ctx)
    assert checks(client) == {"database": "ok", "broker": "ok", "workers": "ok"}
    with ctx.database.session() as session:
        session.get_one(Worker, ctx.worker_name).last_seen_at -= dt.timedelta(seconds=61)
    assert "none has reported itself" in checks(client)["workers"]


def start_worker(ctx, node: str, consumed: tuple[str, ...], name: str) -> None:
    """As a worker process does when it begins."""
    workers.register(dataclasses.replace(ctx, worker_name=name), node, list(consumed))


def test_not_ready_while_nobody_consumes_a_queue(client, ctx):
    start_worker(ctx, "gpu0@a", queues.GPU, "a:1")
    assert checks(client)["workers"].startswith("none of them consumes exec.interactive, exec:")
    start_worker(ctx, "exec@a", queues.SANDBOX, "a:2")
    assert checks(client)["workers"] == "ok"
    with ctx.database.session() as session:
        session.get_one(Worker, "a:2").last_seen_at -= dt.timedelta(seconds=61)
    assert "exec" in checks(client)["workers"]


@pytest.mark.parametrize("pids", [(1, 2, 3, 4), (1, 1, 1, 1)], ids=["new processes", "the same process id again"])
def test_not_ready_while_a_worker_keeps_dying(client, ctx, pids):
    start_worker(ctx, "gpu0@a", queues.GPU, "a:9")
    for pid in pids[:3]:
        start_worker(ctx, "exec@a", queues.SANDBOX, f"a:{pid}")
        assert checks(client)["workers"] == "ok"  # it may have been killed by chance
    start_worker(ctx, "exec@a", queues.SANDBOX, f"a:{pids[3]}")
    assert checks(client)["workers"].startswith("exec@a keeps dying: 3 processes in a row")
    with ctx.database.session() as session:
        session.get_one(Worker, f"a:{pids[-1]}").started_at -= workers.STEADY
    assert checks(client)["workers"] == "ok"  # it lives now


def test_a_worker_that_is_stopped_and_started_often_does_not_keep_dying(client, ctx):
    start_worker(ctx, "gpu0@a", queues.GPU, "a:9")
    for _ in range(6):
        start_worker(ctx, "exec@a", queues.SANDBOX, "a:1")
        assert checks(client)["workers"] == "ok"
        workers.report_stop(dataclasses.replace(ctx, worker_name="a:1"))
        assert "exec" in checks(client)["workers"]


@pytest.mark.parametrize(
    ("state", "waiting", "loading", "said"),
    [
        (RunState.QUEUED, None, None, "a run to be prepared"),
        (RunState.RUNNING, TaskState.QUEUED, None, "a task to be decoded"),
        (RunState.RUNNING, TaskState.DECODED, None, "a task to be graded"),
        (RunState.RUNNING, TaskState.QUEUED, "smollm2-135m", "ok"),
    ],
)
def test_a_worker_that_beats_but_takes_nothing_up_is_deaf(client, ctx, spec, state, waiting, loading, said):
    workers.report(ctx)
    run_id = service.submit(ctx, spec())
    assert checks(client)["workers"] == "ok"  # it has not waited long yet
    long_ago = get_utc_time() - dt.timedelta(seconds=health.DEAF_S + 1)
    with ctx.database.session() as session:
        session.get_one(Worker, ctx.worker_name).loading = loading
        run = session.get_one(Run, run_id)
        run.state, run.created_at = state, long_ago
        for row in run.tasks:
            row.queued_at, row.state = long_ago, waiting or row.state
            row.started_at = long_ago if waiting is TaskState.DECODED else None
    assert said in checks(client)["workers"]
    if waiting is TaskState.QUEUED:
        with ctx.database.session() as session:
            session.get_one(Run, run_id).tasks[0].state = TaskState.DECODING
        assert checks(client)["workers"] == "ok"  # one runs, the others wait
