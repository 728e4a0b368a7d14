"""REST of studies: what a study is asked for, shown and exported as, and every wrong request as one sentence."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pytest

from app.accounts.service import create_token
from app.core.states import Scope
from app.site.factory import create_app
from app.studies import service
from app.studies.schemas import StudySpec
from evaluation.studies.analysis import list_study_budgets

ARMS = [{"target": "smollm2-135m", "n": 1}, {"target": "smollm2-135m", "n": 2}]
BODY = {"dataset": "additions", "budget_s": 5, "arms": ARMS}
STUDIES = "/api/v1/studies"


@pytest.fixture
def client(ctx, additions):
    return create_app(ctx).test_client()


def test_a_study_is_submitted_cancelled_resumed_and_deleted(client):
    first = client.post(STUDIES, json=BODY)
    assert first.status_code == 201, first.text
    assert first.json["study"]["state"] == "queued"
    assert [arm["name"] for arm in first.json["arms"]] == [
        "smollm2-135m, sibling, n = 1",
        "smollm2-135m, sibling, n = 2",
    ]
    address = first.headers["Location"]
    assert len(client.get(STUDIES).json["studies"]) == 1
    assert client.delete(address).status_code == 409
    assert client.post(f"{address}/cancel").status_code == 202
    assert client.get(address).json["study"]["state"] == "cancelled"
    assert client.post(f"{address}/cancel").status_code == 409
    assert client.post(f"{address}/resume").json["study"]["state"] == "queued"
    client.post(f"{address}/cancel")
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    assert client.get("/api/v1/runs").json["runs"] == []


def test_the_document_and_the_exports_are_those_of_the_command_line(ended, ctx):
    client = create_app(ctx).test_client()
    address = f"{STUDIES}/{ended['study']['id']}"
    shown = client.get(address)
    assert {key: value for key, value in shown.json.items() if key != "at_budget"} == ended
    assert client.get(address, headers={"If-None-Match": shown.headers["ETag"]}).status_code == 304
    assert json.loads(client.get(f"{address}/export").data)["sentence"] == ended["sentence"]
    table = client.get(f"{address}/export?format=csv")
    assert (table.mimetype, table.text.count("\n") > 4 * len(list_study_budgets(5.0))) == ("text/csv", True)
    measured = {row["arm"]: row for row in csv.DictReader(io.StringIO(table.text))}
    assert {row["device"] for row in measured.values()} == {ended["study"]["device"]}
    for arm, paper in (
        (arm, row) for arm in ended["arms"] for row in ended["paper_table"] if row["arm"] == arm["name"]
    ):
        row = measured[arm["name"]]
        assert (row["clock_marks"], row["ms_per_token_all"]) == (" ".join(arm["marks"]), str(paper["ms_per_token_all"]))
    report = client.get(f"{address}/export?format=markdown")
    assert report.headers["Content-Disposition"].endswith('.md"')
    assert report.text.startswith("# which\n")
    archived = json.loads(gzip.decompress(client.get(f"{address}/export?format=archive").data))
    assert archived["id"] == ended["study"]["id"]
    assert client.get(f"{address}/export?format=pdf").json["errors"][0]["field"] == "format"


def test_lists_come_in_pages(client, ctx):
    made = [str(service.submit(ctx, StudySpec.model_validate({**BODY, "name": str(i)}))) for i in range(3)]
    first = client.get(STUDIES, query_string={"limit": 2}).json
    assert [one["study"]["id"] for one in first["studies"]] == made[:0:-1]
    rest = client.get(STUDIES, query_string={"limit": 2, "cursor": first["next"]}).json
    assert [one["study"]["id"] for one in rest["studies"]] == made[:1]
    assert rest["next"] is None
    assert client.get(STUDIES, query_string={"cursor": "x"}).status_code == 422


def test_an_open_study_says_nothing_yet_and_has_no_archive(client):
    address = client.post(STUDIES, json=BODY).headers["Location"]
    shown = client.get(address).json
    assert (shown["sentence"][:20], shown["answer"], shown["study"]["tasks_common"]) == ("Nothing can be said ", [], 0)
    refused = client.get(f"{address}/export?format=archive")
    assert (refused.status_code, "only one that has ended" in refused.json["detail"]) == (409, True)
    assert client.get(f"{address}/export?format=csv").text.count("\n") == 1
    assert client.get(f"{address}/export?format=markdown").status_code == 200


def test_names_are_text_in_a_report(client, ctx):
    name = "=1+1 | <img src=x onerror=alert(1)>\n# [x](y) `z`"
    body = {**BODY, "name": name, "arms": [{**ARMS[0], "name": name}, ARMS[1]]}
    address = client.post(STUDIES, json=body).headers["Location"]
    report = client.get(f"{address}/export?format=markdown").text
    before, _, block = report.partition("```console\n")
    command, _, after = block.partition("\n```\n")
    assert "<img" in command, "it repeats the study as it was"
    assert "<img" not in (before + after).replace("\\<img", "")
    (row,) = [line for line in report.splitlines() if line.startswith("| =1+1")]
    assert row.replace("\\|", "").count("|") == 6
    assert "\\[x\\](y) \\`z\\`" in row


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"arms": [ARMS[0], {**ARMS[1], "n": 0}]}, "arms.1.n", "arms.1.n is 0: "),
        ({"arms": [ARMS[0], {**ARMS[1], "n": "many"}]}, "arms.1.n", "arms.1.n is 'many': "),
        ({"arms": [ARMS[0], {"n": 2}]}, "arms.1.target", "arms.1.target is missing"),
        ({"arms": [ARMS[0], {**ARMS[1], "dataset": "other"}]}, "arms.1.dataset", "is not a known field: remove it"),
        ({"arms": [ARMS[0], {**ARMS[1], "target": "a\0"}]}, "arms.1.target", "must not hold the character NUL"),
        ({"arms": [ARMS[0], {**ARMS[1], "target": "gpt-9"}]}, "arms.1.target", "arm 2 (gpt-9, sibling, n = 2): model"),
        ({"arms": [ARMS[0], {**ARMS[1], "drafter": "gpt-9"}]}, "arms.1.drafter", "arms.1.drafter is 'gpt-9': use "),
        ({"arms": [ARMS[0], ARMS[0]]}, "arms.1", "its configuration is the same as in arm 1"),
        ({"arms": [{**arm, "name": "same"} for arm in ARMS]}, "arms.1", "its name is the same as in arm 1"),
        ({"arms": ARMS[:1]}, "arms", "arms has 1 entries: give at least 2"),
        ({"arms": [{**ARMS[0], "n": n} for n in range(1, 34)]}, "arms", "arms has 33 entries: give at most 32"),
        ({"arms": {}}, "arms", "arms is {}: "),
        ({"dataset": "aditions"}, "dataset", "did you mean additions?"),
        ({"task_ids": ["add/9"]}, "task_ids", "'add/9' is not in dataset 'additions'"),
        ({"task_ids": ["add/0"], "limit": 1}, None, "task_ids and limit exclude each other"),
        ({"limit": 0}, "limit", "limit is 0: "),
        ({"budget_s": 0}, "budget_s", "budget_s is 0: "),
        ({"budget_s": 1e9}, "budget_s", "budget_s is 1000000000"),
        ({"seed": -1}, "seed", "seed is -1: "),
        ({"name": "a\0"}, "name", "must not hold the character NUL"),
        ({"colour": "red"}, "colour", "colour is not a known field"),
    ],
)  # fmt: skip
def test_a_wrong_request_names_arm_and_field_and_nothing_is_stored(client, changes, field, sentence):
    answer = client.post(STUDIES, json={**BODY, **changes})
    assert answer.status_code == 422
    assert sentence in answer.json["detail"]
    assert [fault["field"] for fault in answer.json["errors"]] == ([field] if field else [])
    assert client.get(STUDIES).json["studies"] == []
    assert client.get("/api/v1/runs").json["runs"] == []


def test_what_is_no_body_is_refused(client):
    deep = "[" * 5000 + "]" * 5000
    for body in (deep, "{", '{"arms": ' + deep + "}", '["x"]', '{"name": "\\ud800"}'):
        answer = client.post(STUDIES, data=body, content_type="application/json")
        assert (answer.status_code, answer.mimetype) == (422, "application/problem+json")
    assert client.post(STUDIES, data="x").status_code == 415
    unknown = "01a201fe-ec06-7f16-9308-56b236fec816"
    assert client.get(f"{STUDIES}/{unknown}").status_code == 404
    assert client.post(f"{STUDIES}/{unknown}/cancel").status_code == 404


def test_scopes_are_those_of_runs(ctx, additions):
    import dataclasses

    guarded = ctx.settings.model_copy(update={"require_tokens": True, "allowed_models": "*"})
    client = create_app(dataclasses.replace(ctx, settings=guarded)).test_client()
    read, submit, admin = (
        {"Authorization": f"Bearer {create_token(ctx, scope, scope)}"}
        for scope in (Scope.READ, Scope.SUBMIT, Scope.ADMIN)
    )
    assert client.get(STUDIES).status_code == 401
    assert client.get(STUDIES, headers=read).status_code == 200
    assert client.post(STUDIES, json=BODY, headers=read).status_code == 403
    address = client.post(STUDIES, json=BODY, headers=submit).headers["Location"]
    assert client.post(f"{address}/cancel", headers=read).status_code == 403
    assert client.post(f"{address}/cancel", headers=submit).status_code == 202
    assert client.delete(address, headers=submit).status_code == 403
    assert client.delete(address, headers=admin).status_code == 204


def test_the_models_that_a_request_may_name_are_those_of_runs(ctx, additions):
    import dataclasses

    strict = ctx.settings.model_copy(update={"allowed_models": "qwen2.5-coder-0.5b"})
    client = create_app(dataclasses.replace(ctx, settings=strict)).test_client()
    answer = client.post(STUDIES, json=BODY)
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (422, "arms.0.target")
