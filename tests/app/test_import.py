"""Samples made elsewhere, over HTTP and on the command line: the same checks, the same verdicts, the same sentences."""

from __future__ import annotations

import gzip
import io
import json

import pytest
from click.testing import CliRunner

from app.cli import cli
from app.factory import create_app
from app.http import limits
from app.jobs.embedded import Embedded
from tests.fakes import RIGHT, WRONG

LINES = [
    {"task_id": f"add/{i}", "completion": text}
    for i in range(3)
    for text in ((RIGHT, WRONG) if i else (WRONG, WRONG))
]  # fmt: skip
OWN = {"task_id": "add/0", "index": 0, "raw": RIGHT, "program": RIGHT}


def as_file(rows) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


@pytest.fixture
def client(ctx, additions):
    return create_app(ctx).test_client()


def post(client, data: bytes, origin: str = "samples.jsonl", **form):
    fields = {"target": "elsewhere", "dataset": "additions", **form}
    return client.post("/api/v1/runs/import", data={**fields, "file": (io.BytesIO(data), origin)})


def test_a_posted_file_becomes_a_run_that_is_judged(client, ctx):
    with Embedded(ctx, "test"):
        answer = post(client, gzip.compress(as_file(LINES)), "samples.jsonl.gz", name="theirs")
        assert answer.status_code == 201, answer.text
        client.get(f"{answer.headers['Location']}/events", buffered=True)
    shown = client.get(answer.headers["Location"]).json
    assert (shown["run"]["kind"], shown["run"]["state"], shown["run"]["name"]) == ("imported", "finished", "theirs")
    assert (shown["figures"]["tasks"], shown["figures"]["samples_passed"]) == (3, 2)
    assert shown["progress"]["tasks_finished"] == 3


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([{"task_id": "add/9", "completion": ""}], "field task_id: 'add/9' is not in the dataset"),
        ([], "holds no samples"),
        ([{**OWN, "finish_reason": "stopp"}], "field finish_reason: is 'stopp': did you mean stop?"),
        ([{**OWN, "n_tokens": 2**40}], "sample 0 of add/0, field n_tokens: is 1.1e+12, give 0 to 2147483647"),
        ([{**OWN, "n_tokens": 10**400}], "field n_tokens: is a huge number, give 0 to 2147483647"),
        ([{**OWN, "finished_s": 1e308}], "field finished_s: is 1e+308 s, give 0 to 1000000000"),
        ([{**OWN, "mean_logprob": -1e308}], "field mean_logprob: is -1e+308, give -1000000 to 1000000"),
        ([{**OWN, "seed": -1}], "field seed: is -1"),
        ([{**OWN, "finished_s": float("nan")}], "field finished_s: is nan, give a number or null"),
        ([{**OWN, "finished_s": -1.0}], "field finished_s: is -1.0 s"),
        ([{**OWN, "budget_s": 0}], "field budget_s: is 0"),
        ([{**OWN, "extraction": "x" * 21}], "field extraction: has 21 characters, give at most 20"),
        ([{**OWN, "raw": "\ud800"}], "field raw: holds half a character"),
    ],
)
def test_what_is_no_sample_is_one_sentence_on_both_ways(client, ctx, tmp_path, monkeypatch, rows, sentence):
    answer = post(client, as_file(rows))
    assert answer.status_code == 422
    assert sentence in answer.json["detail"]
    assert answer.json["errors"][0]["field"] == "file"
    file = tmp_path / "samples.jsonl"
    file.write_bytes(as_file(rows))
    monkeypatch.setattr("app.commands.common.make_context", lambda: ctx)
    command = ["runs", "import", str(file), "--target", "elsewhere", "--dataset", "additions"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 2
    assert answer.json["detail"] in result.stderr
    assert client.get("/api/v1/runs").json["runs"] == []


def test_fields_are_checked_like_those_of_any_run(client):
    assert post(client, as_file(LINES), dataset="aditions").json["errors"][0]["field"] == "dataset"
    assert post(client, as_file(LINES), target="").json["errors"][0]["field"] == "target"
    assert post(client, as_file(LINES), colour="red").json["errors"][0]["field"] == "colour"
    assert client.post("/api/v1/runs/import", json={}).status_code == 415


def test_a_name_of_a_file_is_text_and_never_too_long(client):
    answer = post(client, as_file(LINES), "a\x01b" + "c" * 500)
    assert answer.status_code == 201
    assert answer.json["run"]["name"].startswith("elsewhere (abccc")


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(client, monkeypatch):
    monkeypatch.setattr(limits, "UPLOAD_BYTES", 1000)
    assert post(client, as_file(LINES * 50)).status_code == 413


def test_a_part_of_a_form_without_a_name_is_refused(client):
    body = b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n"
    answer = client.post("/api/v1/runs/import", data=body, content_type="multipart/form-data; boundary=b")
    assert answer.status_code == 422
    assert "has no name" in answer.json["detail"]
