"""REST of annotations: what PATCH changes and leaves, who may, what is refused, and the filters of lists."""

from __future__ import annotations

import dataclasses

import pytest

from app.accounts.service import create_token
from app.core.states import Scope
from app.site.factory import create_app

NOWHERE = "01900000-0000-7000-8000-000000000000"


@pytest.fixture
def kinds(world):
    """The address of a run and of a study with one arm more, by the word for them."""
    run = world.add_run("alone", limit=1, n=1)
    study = world.add_study({"name": "a", "limit": 1, "n": 1}, {"name": "b", "limit": 1, "n": 2})
    return {"run": f"/api/v1/runs/{run}", "study": f"/api/v1/studies/{study}"}


@pytest.fixture(params=["run", "study"])
def kind(request):
    return request.param


@pytest.fixture
def patch(world, kinds, kind):
    """Sends a change; returns the answer."""
    return lambda **changes: world.client.patch(kinds[kind], json=changes)


@pytest.fixture
def noted(world, kinds, kind):
    """The annotations in the document."""

    def read() -> tuple:
        found = world.client.get(kinds[kind]).json[kind]
        return found["note"], found["archived"]

    return read


def test_nothing_is_noted_at_first(noted):
    assert noted() == ("", False)


def test_what_is_left_out_or_null_stays_as_it_is(patch, noted, kind):
    answer = patch(note=" two\r\nlines ")
    assert answer.status_code == 200
    assert answer.json[kind]["note"] == "two\nlines"
    patch(archived=True, note=None)
    assert noted() == ("two\nlines", True)
    patch(note="")
    assert noted() == ("", True)
    patch()
    assert noted() == ("", True)


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"note": "x" * 10_001}, "note", "shorten it to 10000 characters"),
        ({"note": "a\0b"}, "note", "must not hold the character NUL"),
        ({"archived": 1}, "archived", "archived is 1"),
        ({"star": True}, "star", "star is not a known field: remove it"),
    ],
)
def test_a_wrong_change_gets_a_sentence_that_names_the_field_and_changes_nothing(
    patch, noted, changes, field, sentence
):
    answer = patch(**changes)
    assert answer.status_code == 422
    assert answer.json["errors"][0]["field"] == field
    assert sentence in answer.json["detail"]
    assert noted() == ("", False)


def test_what_is_gone_gets_a_sentence(world):
    for path in ("runs", "studies"):
        answer = world.client.patch(f"/api/v1/{path}/{NOWHERE}", json={"note": "x"})
        assert answer.status_code == 404
        assert answer.json["detail"].startswith("there is no")


def test_only_whoever_may_submit_may_annotate(world, kinds):
    ctx = world.context
    guarded = create_app(
        dataclasses.replace(ctx, settings=ctx.settings.model_copy(update={"require_tokens": True}))
    ).test_client()
    for scope, status in ((Scope.READ, 403), (Scope.SUBMIT, 200)):
        token = {"Authorization": f"Bearer {create_token(ctx, str(scope), scope)}"}
        for address in kinds.values():
            assert guarded.patch(address, json={"note": "x"}, headers=token).status_code == status
    assert guarded.patch(kinds["run"], json={"note": "x"}).status_code == 401


def names(world, address: str) -> set[str]:
    answer = world.client.get(f"/api/v1/{address}")
    assert answer.status_code == 200, answer.text
    (rows,) = (value for key, value in answer.json.items() if key != "next")
    return {(row.get("run") or row)["name"] if "study" not in row else row["study"]["name"] for row in rows}


@pytest.fixture
def three_of_each(world):
    """Two runs and studies in lists, and an archived one of each."""
    changes = {"x": {}, "y": {"note": "look"}, "gone": {"archived": True}}
    for name, change in changes.items():
        run = world.add_run(name, limit=1, n=1)
        world.client.patch(f"/api/v1/runs/{run}", json=change)
        study = world.add_study({"name": f"{name}-arm", "limit": 1, "n": 1}, name=name)
        world.client.patch(f"/api/v1/studies/{study}", json=change)


ARMS = {"x-arm", "y-arm"}


@pytest.mark.usefixtures("three_of_each")
def test_lists_leave_archived_ones_out(world):
    assert names(world, "runs") == {"x", "y"} | ARMS
    assert names(world, "runs?archived=1") == {"x", "y", "gone", "gone-arm"} | ARMS
    assert names(world, "studies") == {"x", "y"}
    assert names(world, "studies?archived=true") == {"x", "y", "gone"}


def test_pages_of_a_filtered_list_leave_nothing_out(world):
    for i in range(7):
        run = world.add_run(f"run {i}", limit=1, n=1)
        world.client.patch(f"/api/v1/runs/{run}", json={"archived": bool(i % 2)})
    whole, cursor = [], ""
    while cursor is not None:
        page = world.client.get(f"/api/v1/runs?limit=2{cursor}").json
        whole += [row["run"]["name"] for row in page["runs"]]
        cursor = page["next"] and f"&cursor={page['next']}"
    assert whole == ["run 6", "run 4", "run 2", "run 0"]


def test_a_study_takes_the_runs_of_its_arms_along_and_brings_them_back(world, kinds):
    world.client.patch(kinds["study"], json={"archived": True})
    assert names(world, "runs") == {"alone"}
    world.client.patch(kinds["study"], json={"note": "x"})
    assert names(world, "runs?archived=1") == {"alone", "a", "b"}
    world.client.patch(kinds["study"], json={"archived": False})
    assert names(world, "runs") == {"alone", "a", "b"}
