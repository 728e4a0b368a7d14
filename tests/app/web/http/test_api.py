"""REST: a run and a completion over HTTP, problem documents, tokens, and what other sites may not do."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import select

from app.core.states import RunState
from app.jobs.embedded import EmbeddedWorkers
from app.runs.models import Run
from app.site.factory import create_app
from tests.integration.waiting import wait_for

BODY = {"target": "smollm2-135m", "dataset": "additions", "n": 2, "budget_s": 5}


@pytest.fixture
def client(ctx):
    return create_app(ctx).test_client()


def events(response) -> list[tuple[str, dict]]:
    frames = [frame for frame in response.get_data(as_text=True).split("\n\n") if "data: " in frame]
    return [
        (
            next(line[7:] for line in frame.splitlines() if line.startswith("event: ")),
            json.loads(next(line[6:] for line in frame.splitlines() if line.startswith("data: "))),
        )
        for frame in frames
    ]


@pytest.mark.usefixtures("additions")
def test_a_run_over_http_with_its_events(client, ctx):
    with EmbeddedWorkers(ctx, "test"):
        created = client.post("/api/v1/runs", json=BODY)
        assert created.status_code == 201
        address = created.headers["Location"]
        heard = events(client.get(f"{address}/events", buffered=True))
    assert heard[-1] == ("state", {"state": "finished", "error": None})
    assert [kind for kind, _ in heard].count("graded") == 6
    shown = client.get(address).json
    assert shown["figures"]["pass_first"] == 1.0
    assert shown["progress"]["tasks"] == {"finished": 3}
    assert [r["run"]["id"] for r in client.get("/api/v1/runs").json["runs"]] == [shown["run"]["id"]]
    assert client.get("/api/v1/leaderboard?budget=2").json["rows"][0]["run"] == shown["run"]["id"]
    assert len(client.get(f"{address}/samples").json["samples"]) == 6
    assert client.post(f"{address}/cancel").status_code == 409
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404


def test_a_completion_streams_texts_and_ends(client, ctx):
    with EmbeddedWorkers(ctx, "test"):
        body = {"target": "smollm2-135m", "prompt": "def add(a, b):\n", "n": 2, "test": "assert add(1, 2) == 3"}
        heard = events(
            client.post("/api/v1/complete", json=body, headers={"Accept": "text/event-stream"}, buffered=True)
        )
        answer = client.post("/api/v1/complete", json=body).json
    texts = [s for kind, data in heard if kind == "text" for s in data["samples"]]
    assert {s["text"] for s in texts} == {"    return a + b\n", "    return a - b\n"}
    assert all(len(s["origins"]) == s["n_tokens"] for s in texts)
    assert [s["verdict"] for s in answer["samples"]] == ["passed", "wrong_answer"]
    assert client.get("/api/v1/runs").json["runs"] == []  # completions are not listed among runs


@pytest.mark.parametrize(
    ("path", "asked", "headers"),
    [
        ("/api/v1/complete", {"target": "smollm2-135m"}, {"Accept": "text/event-stream"}),
        ("/v1/completions", {"model": "smollm2-135m", "stream": True}, {}),
    ],
)
def test_a_client_that_leaves_before_the_first_frame_cancels_its_completion(client, ctx, path, asked, headers):
    client.post(path, json={"prompt": "def add(a, b):\n", **asked}, headers=headers).close()
    with ctx.database.read() as session:
        (run,) = session.scalars(select(Run))
    assert run.state is RunState.CANCELLED
    assert ctx.completion_slots.acquire(blocking=False)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"n": 0}, "n"),
        ({"budget_s": -1}, "budget_s"),
        ({"target": "gpt-9"}, "target"),
        ({"dataset": "x"}, "dataset"),
        ({"colour": "red"}, "colour"),
        ({"task_ids": ["add/9"]}, "task_ids"),
    ],
)
@pytest.mark.usefixtures("additions")
def test_bad_input_is_a_problem_document_naming_the_field(client, change, field):
    answer = client.post("/api/v1/runs", json=BODY | change)
    assert answer.status_code == 422
    assert answer.content_type == "application/problem+json"
    assert answer.json["errors"][0]["field"] == field


def test_unknown_addresses_and_bodies_are_problem_documents(client):
    for answer, status in [
        (client.get("/api/v1/nothing"), 404),
        (client.post("/api/v1/runs", data="x"), 415),
        (client.post("/api/v1/runs", data="x", content_type="application/json"), 422),
        (client.post("/api/v1/runs", data="[" * 100_000, content_type="application/json"), 422),
        (client.post("/api/v1/runs", json=[]), 422),
        (client.get("/api/v1/runs?limit=x"), 422),
        (client.put("/api/v1/runs"), 405),
    ]:
        assert answer.status_code == status
        assert answer.json["status"] == status
        assert answer.json["detail"]


def test_health_says_whether_work_can_be_done(client, ctx):
    assert client.get("/api/v1/health/live").json == {"status": "live"}
    assert client.get("/api/v1/health/ready").status_code == 503
    with EmbeddedWorkers(ctx, "test"):  # its heartbeat registers the worker in a thread
        wait_for(lambda: client.get("/api/v1/health/ready").status_code == 200)
