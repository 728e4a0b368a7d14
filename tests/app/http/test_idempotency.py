"""Idempotency-Key: a request counts by what it means, a stream passes as it comes, and stored work is never denied."""

from __future__ import annotations

import io
import json

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from app.completions import waiting
from app.factory import create_app
from app.openai import service
from app.runs.repository import list_runs
from app.states import RunKind
from tests.fakes import RIGHT

KEY = {"Idempotency-Key": "k"}
ROW = {
    "task_id": "add/0",
    "prompt": "def add(a, b):\n",
    "entry_point": "add",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    "canonical_solution": RIGHT,
}


@pytest.fixture
def client(ctx):
    return create_app(ctx).test_client()


def upload(client, row: dict[str, str], file_name: str = "mine.jsonl", **fields: str):
    data = {"file": (io.BytesIO(json.dumps(row).encode()), file_name), **fields}
    return client.post("/api/v1/datasets", data=data, headers=KEY)  # with a boundary of its own each time


def n_datasets(client) -> int:
    return len(client.get("/api/v1/datasets").json["datasets"])


@pytest.mark.parametrize(
    "change",
    [{"row": ROW | {"task_id": "add/1"}}, {"name": "other"}, {"file_name": "other.jsonl"}],
)
def test_another_upload_with_the_same_key_is_refused(client, change):
    before = n_datasets(client)
    assert upload(client, ROW, name="sums").status_code == 201
    refused = upload(client, **{"row": ROW, "name": "sums", **change})
    assert refused.status_code == 422
    assert refused.json["errors"][0]["field"] == "Idempotency-Key"
    assert n_datasets(client) == before + 1


def test_the_same_upload_in_another_multipart_body_gets_the_first_answer(client):
    first, again = upload(client, ROW, name="sums"), upload(client, ROW, name="sums")
    assert (again.status_code, again.json) == (201, first.json)
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/v1/completions", {"model": "smollm2-135m", "prompt": "x", "stream": True}, {}),
        ("/api/v1/complete", {"target": "smollm2-135m", "prompt": "x"}, {"Accept": "text/event-stream"}),
    ],
)
def test_a_stream_with_a_key_passes_as_it_comes_and_a_repetition_is_a_new_completion(
    client, ctx, monkeypatch, path, body, headers
):
    monkeypatch.setattr(waiting, "BEAT_S", 0.01)
    monkeypatch.setattr(service, "TAKE_UP_S", 0.1)  # a stream that is read to its end first ends with an error
    for _ in range(2):
        answer = client.post(path, json=body, headers=KEY | headers)
        assert answer.status_code == 200
        assert answer.is_streamed
        assert next(answer.response)  # nobody works on it, so this is not the end
        assert "Idempotency-Replayed" not in answer.headers
        answer.close()
    with ctx.database.read() as session:
        assert len(list_runs(session, kinds=(RunKind.COMPLETION,))) == 2


@pytest.mark.usefixtures("additions")
def test_a_response_that_cannot_be_stored_is_still_sent(client, ctx):
    def full(_connection, _cursor, statement: str, *_):
        if statement.startswith("UPDATE idempotency_keys"):
            raise OperationalError("UPDATE", {}, Exception("database or disk is full"))

    event.listen(ctx.database.engine, "before_cursor_execute", full)
    body = {"target": "smollm2-135m", "dataset": "additions", "n": 2, "budget_s": 5}
    assert client.post("/api/v1/runs", json=body, headers=KEY).status_code == 201
