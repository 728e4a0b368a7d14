"""REST of load tests: stored as they were sent, read with their capacity, and wrong ones refused by field."""

from __future__ import annotations

import pytest

from app.accounts.service import create_token
from app.factory import create_app
from app.states import Scope

CAPACITY = "/api/v1/capacity"


@pytest.fixture
def client(ctx):
    return create_app(ctx).test_client()


def test_a_load_test_is_stored_as_sent_and_read_with_its_capacity(client, body):
    sent = client.post(CAPACITY, json=body)
    assert sent.status_code == 201, sent.text
    found = client.get(sent.headers["Location"]).json
    assert found == sent.json
    assert {key: found[key] for key in ("name", "idle", "points")} == {
        key: body[key] for key in ("name", "idle", "points")
    }
    assert found["settings"] == {**body["settings"], "drafter": "", "measured_elsewhere": False}
    assert found["capacity"] == 0.5
    assert found["sentence"].startswith("It carries 0.5 requests per second by the best estimate")
    assert (found["capacity_low"], found["capacity_high"]) == (None, 0.5)
    assert [one["verdict"] for one in found["against_idle"]] == ["undecided"] * 3 + ["better"] * 2


def test_lists_are_newest_first_and_paged(client, body):
    for i in range(3):
        client.post(CAPACITY, json={**body, "name": f"test {i}"})
    first = client.get(f"{CAPACITY}?limit=2").json
    assert [one["name"] for one in first["load_tests"]] == ["test 2", "test 1"]
    rest = client.get(f"{CAPACITY}?limit=2&cursor={first['next']}").json
    assert ([one["name"] for one in rest["load_tests"]], rest["next"]) == (["test 0"], None)


def test_an_unknown_load_test_is_not_found(client):
    answer = client.get(f"{CAPACITY}/01a204ef-7954-7a5b-b4bb-1e5b686af243")
    assert answer.status_code == 404
    assert "there is no load test 01a204ef" in answer.json["detail"]


def test_a_repeated_request_stores_once(client, body):
    key = {"Idempotency-Key": "nightly"}
    assert client.post(CAPACITY, json=body, headers=key).json == client.post(CAPACITY, json=body, headers=key).json
    assert len(client.get(CAPACITY).json["load_tests"]) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda b: b.pop("idle"), "idle is missing"),
        (lambda b: b.update(points=[]), "points has 0 entries: give at least 1"),
        (lambda b: b["points"].reverse(), "points name no rate, or one twice, or not in ascending order"),
        (lambda b: b["points"][0].update(rate=None), "points name no rate"),
        (lambda b: b["idle"].update(rate=1.0), "idle names a rate: leave it out"),
        (lambda b: b["points"][0].update(pass_first=1.5), "points.0.pass_first is 1.5"),
        (lambda b: b["points"][0].update(by_prompt=[[1, 2]]), "by_prompt has a prompt with more right requests"),
        (lambda b: b["points"][0].update(right=1), "points.0.right is not a known field"),
        (lambda b: b["settings"].update(arm="a\0"), "settings.arm"),
        (lambda b: b["settings"]["machine"].update(cpu=1.5), "settings.machine.cpu"),
    ],
)
def test_a_wrong_load_test_is_refused_with_the_field(client, body, change, said):
    change(body)
    answer = client.post(CAPACITY, json=body)
    assert answer.status_code == 422
    assert said in answer.json["detail"]
    assert client.get(CAPACITY).json["load_tests"] == []


def test_storing_needs_the_scope_of_other_writes(ctx, body):
    ctx.settings = ctx.settings.model_copy(update={"require_tokens": True})
    client = create_app(ctx).test_client()
    bearer = {
        scope: {"Authorization": f"Bearer {create_token(ctx, scope, scope)}"} for scope in (Scope.READ, Scope.SUBMIT)
    }
    assert client.post(CAPACITY, json=body).status_code == 401
    assert client.post(CAPACITY, json=body, headers=bearer[Scope.READ]).status_code == 403
    assert client.post(CAPACITY, json=body, headers=bearer[Scope.SUBMIT]).status_code == 201
    assert client.get(CAPACITY, headers=bearer[Scope.READ]).status_code == 200


def test_a_load_test_is_deleted_by_an_admin_over_rest_and_on_its_page(ctx, body):
    ctx.settings = ctx.settings.model_copy(update={"require_tokens": True})
    app = create_app(ctx)
    app.config["WTF_CSRF_ENABLED"] = False
    client = app.test_client()
    bearer = {
        scope: {"Authorization": f"Bearer {create_token(ctx, scope, scope)}"} for scope in (Scope.SUBMIT, Scope.ADMIN)
    }
    rest, page = (client.post(CAPACITY, json=body, headers=bearer[Scope.SUBMIT]).json["id"] for _ in range(2))
    for scope, statuses in ((Scope.SUBMIT, (403, 403)), (Scope.ADMIN, (204, 303))):
        button = "Delete the load test" in client.get(f"/capacity/{page}", headers=bearer[scope]).text
        assert button is (scope is Scope.ADMIN)
        answers = (
            client.delete(f"{CAPACITY}/{rest}", headers=bearer[scope]),
            client.post(f"/capacity/{page}/delete", headers=bearer[scope]),
        )
        assert tuple(answer.status_code for answer in answers) == statuses
    assert client.get(CAPACITY, headers=bearer[Scope.ADMIN]).json["load_tests"] == []
    assert client.delete(f"{CAPACITY}/{rest}", headers=bearer[Scope.ADMIN]).status_code == 404
