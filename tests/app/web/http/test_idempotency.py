"""Idempotency-Key: a request counts by what it means, a stream passes as it comes, and stored work is never denied."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError

from app.completions import waiting
from app.core.db.types import utcnow
from app.core.states import RunKind
from app.openai import service
from app.runs.repository import RunFilter, list_runs
from app.site.factory import create_app
from app.web.http import claim_owners
from app.web.http.idempotency_models import IdempotencyKey
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
        assert len(list_runs(session, RunFilter(kinds=(RunKind.COMPLETION,)))) == 2


@pytest.mark.usefixtures("additions")
def test_a_response_that_cannot_be_stored_is_still_sent(client, ctx):
    def full(_connection, _cursor, statement: str, *_):
        if statement.startswith("UPDATE idempotency_keys SET status"):
            raise OperationalError("UPDATE", {}, Exception("database or disk is full"))

    event.listen(ctx.database.engine, "before_cursor_execute", full)
    body = {"target": "smollm2-135m", "dataset": "additions", "n": 2, "budget_s": 5}
    assert client.post("/api/v1/runs", json=body, headers=KEY).status_code == 201


KILLED = """
import json, os, signal, sys
from app.core.context import make_context
from app.site.factory import create_app
from app.core.settings import Settings

data_dir, moment, path, body = sys.argv[1:]

def die(*_arguments, **_named):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "before":
    from app.runs import service
    from app.studies import service as studies
    service.submit = studies.submit = die
else:
    from app.runs import api
    from app.studies import api as studies
    api._document = studies._overview = die
ctx = make_context(Settings(_env_file=None, data_dir=data_dir))
create_app(ctx).test_client().post(path, json=json.loads(body), headers={"Idempotency-Key": "k"})
"""
"""Posts to the service, and kills itself before the run is stored or before it is answered."""


def post_and_be_killed(ctx, moment: str, path: str, body: dict) -> None:
    words = [sys.executable, "-c", KILLED, str(ctx.settings.data_dir), moment, path, json.dumps(body)]
    done = subprocess.run(words, capture_output=True, timeout=600, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


RUN = {"target": "smollm2-135m", "dataset": "additions", "n": 2, "budget_s": 5}
STUDY = {"arms": [{"target": "smollm2-135m", "n": 1}, {"target": "smollm2-135m", "n": 2}], "dataset": "additions"}


@pytest.mark.usefixtures("additions")
@pytest.mark.parametrize(
    ("path", "body", "n_runs"), [("/api/v1/runs", RUN, 1), ("/api/v1/studies", STUDY | {"budget_s": 5}, 2)]
)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_request_is_carried_out_once(client, ctx, moment, path, body, n_runs):
    post_and_be_killed(ctx, moment, path, body)
    with ctx.database.read() as session:
        stored = [run.id for run in list_runs(session)]
    assert len(stored) == (n_runs if moment == "after" else 0)
    first = client.post(path, json=body, headers=KEY)
    assert first.status_code == 201, first.json
    again = client.post(path, json=body, headers=KEY)
    assert (again.json, again.headers["Location"]) == (first.json, first.headers["Location"])
    with ctx.database.read() as session:
        assert len(list_runs(session)) == n_runs
        assert moment == "before" or {run.id for run in list_runs(session)} == set(stored)
        (key,) = session.scalars(select(IdempotencyKey))
    assert key.run_id is not None


@pytest.mark.usefixtures("additions")
def test_a_request_that_is_being_answered_or_may_be_elsewhere_is_not_repeated(client, ctx):
    assert client.post("/api/v1/runs", json=RUN, headers=KEY).status_code == 201
    for owner in (claim_owners.name_this_process(), "elsewhere 7 1.00"):
        with ctx.database.session() as session:
            (key,) = session.scalars(select(IdempotencyKey))
            key.status, key.owner = None, owner
        refused = client.post("/api/v1/runs", json=RUN, headers=KEY)
        assert refused.status_code == 409
        assert key.expires_at > utcnow()


def test_a_process_is_gone_once_it_has_ended_or_its_id_belongs_to_another():
    process = subprocess.Popen(["sleep", "60"])
    host, _, started = claim_owners.name_this_process().split()
    owner = claim_owners._name_process(host, process.pid)
    assert not claim_owners.is_gone(owner)
    assert claim_owners.is_gone(f"{host} {process.pid} {float(started) - 3600:.2f}")
    process.kill()
    process.wait()
    assert claim_owners.is_gone(owner)
    assert claim_owners.is_gone(None)
