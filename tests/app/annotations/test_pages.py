"""Annotations on pages: each form works without a script, keeps the place of the reader, and says what is wrong."""

from __future__ import annotations

import dataclasses
import html
import re

import pytest

from app.accounts import users
from app.core.states import Scope
from app.runs.repository import get_run
from app.site.factory import create_app
from app.studies.repository import get_study

HOSTILE = "<script>alert(1)</script>\u202e</textarea>"


@pytest.fixture(params=["run", "study"])
def place(request, world):
    """(address of the page, how to read its row)."""
    if request.param == "run":
        found, read, path = world.add_run("one", limit=2, n=1), get_run, "runs"
    else:
        arms = {"limit": 2, "n": 1}
        found, read, path = world.add_study(arms | {"name": "a"}, arms | {"name": "b"}), get_study, "studies"

    def row():
        with world.context.database.read() as session:
            return read(session, found)

    return f"/{path}/{found}", row


@pytest.fixture
def client(world):
    """A browser whose forms carry the token against other sites."""
    client = world.app.test_client()

    def send(address: str, **form: str):
        page = client.get(address).get_data(as_text=True)
        action = html.unescape(re.search(r'action="([^"]*/annotations[^"]*)"', page)[1])
        token = re.search(r'name="csrf_token" value="([^"]+)"', page)[1]
        return client.post(action, data={"csrf_token": token, **form})

    client.send = send
    return client


def test_a_note_keeps_its_lines_and_stays_text(place, client):
    address, row = place
    client.send(address, note=f"first\r\n  second\r\n{HOSTILE}")
    assert row().note == f"first\n  second\n{HOSTILE}"
    page = client.get(address).get_data(as_text=True)
    assert "<script>alert" not in page
    assert "</textarea></textarea>" not in page
    assert 'class="user-note"' in page
    client.send(address, note="")
    assert 'class="user-note"' not in client.get(address).get_data(as_text=True)


def test_the_archive_is_set_and_taken_back(place, client):
    address, row = place
    client.send(address, archived="1")
    assert row().archived is True
    page = client.get(address).get_data(as_text=True)
    assert "is archived.</strong>" in page
    assert "Unarchive" in page
    client.send(address, archived="0")
    assert row().archived is False


def test_a_refused_form_gets_one_sentence_and_the_way_back(place, client):
    address, row = place
    page = client.get(address).get_data(as_text=True)
    action = html.unescape(re.search(r'action="([^"]*/annotations[^"]*)"', page)[1])
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)[1]
    referrer = {"Referer": f"http://localhost{address}"}
    answer = client.post(action, data={"csrf_token": token, "note": "kept " * 2001}, headers=referrer)
    page = html.unescape(answer.get_data(as_text=True))
    assert answer.status_code == 422
    assert "characters)" in page
    assert f'href="{address}">Back to the page<' in page
    assert row().note == ""


def test_a_form_leads_back_to_the_tab_it_was_on(world, client):
    run = world.add_run("one", limit=2, n=1)
    answer = client.send(f"/runs/{run}?tab=tasks&show=failed&run_id=x", note="x")
    assert answer.headers["Location"] == f"/runs/{run}?tab=tasks&show=failed"
    assert client.get(f"/runs/{run}/annotations?tab=tasks").headers["Location"] == f"/runs/{run}?tab=tasks"


def test_a_form_without_the_token_against_other_sites_changes_nothing(place, world):
    address, row = place
    assert world.client.post(f"{address}/annotations", data={"archived": "1"}).status_code == 400
    assert row().archived is False


def test_what_was_deleted_meanwhile_gets_a_sentence(world, client):
    run = world.add_run("one", limit=1, n=1)
    page = client.get(f"/runs/{run}").get_data(as_text=True)
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)[1]
    world.client.delete(f"/api/v1/runs/{run}")
    answer = client.post(f"/runs/{run}/annotations", data={"csrf_token": token, "archived": "1"})
    assert answer.status_code == 404
    assert f"here is no run {run}" in answer.get_data(as_text=True)


def test_a_reader_sees_the_note_and_no_forms(world):
    run = world.add_run("one", limit=1, n=1)
    world.client.patch(f"/api/v1/runs/{run}", json={"note": "look", "archived": True})
    ctx = world.context
    guarded = create_app(dataclasses.replace(ctx, settings=ctx.settings.model_copy(update={"require_tokens": True})))
    users.create_user(ctx, "reader", "a long password", Scope.READ)
    client = guarded.test_client()
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get("/login").get_data(as_text=True))[1]
    signed_in = client.post("/login", data={"csrf_token": token, "name": "reader", "password": "a long password"})
    assert signed_in.status_code == 303
    page = client.get(f"/runs/{run}").get_data(as_text=True)
    assert ">look</div>" in page
    assert "This run is archived." in page
    assert "/annotations" not in page


def rows(world, address: str) -> list[str]:
    page = world.client.get(address).get_data(as_text=True)
    return [html.unescape(name) for name in re.findall(r'class="name" href="[^"]+">([^<]+)<', page)]


@pytest.fixture
def noted(world):
    """Changes a run or a study by its path."""
    return lambda path, **changes: world.client.patch(f"/api/v1/{path}", json=changes)


def test_the_list_of_runs_shows_archived_ones_when_asked(world, noted):
    for name in ("plain", "x", "gone"):
        noted(f"runs/{world.add_run(name, limit=1, n=1)}", archived=name == "gone")
    assert rows(world, "/runs") == ["x", "plain"]
    assert rows(world, "/runs?archived=1") == ["gone", "x", "plain"]
    assert 'badge archived">archived' in world.client.get("/runs?archived=1").get_data(as_text=True)


def test_the_list_of_studies_filters(world, noted):
    for name in ("plain", "gone"):
        study = world.add_study({"name": f"arm of {name}", "limit": 1, "n": 1}, name=name)
        noted(f"studies/{study}", archived=name == "gone")
    assert rows(world, "/studies") == ["plain"]
    assert rows(world, "/studies?archived=1") == ["gone", "plain"]


def test_a_long_list_goes_on_behind_more_and_back(world, noted, monkeypatch):
    monkeypatch.setattr("app.runs.pages.PAGE_SIZE", 2)
    for i in range(5):
        noted(f"runs/{world.add_run(f'run {i}', limit=1, n=1)}", archived=True)
    seen, address = [], "/runs?archived=1"
    while address:
        seen += rows(world, address)
        page = html.unescape(world.client.get(address).get_data(as_text=True))
        more = re.search(r'href="([^"]+)">More runs<', page)
        assert (">Back to the first<" in page) == (len(seen) > 2)
        address = more and more[1]
    assert seen == [f"run {i}" for i in range(4, -1, -1)]


def test_an_overlay_keeps_an_archived_run_that_is_named(world, noted):
    a, b = (world.add_run(name, limit=3, n=1) for name in ("a", "b"))
    noted(f"runs/{a}", archived=True)
    assert "What changed" in world.client.get(f"/overlay/{a},{b}").get_data(as_text=True)
