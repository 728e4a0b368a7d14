"""Each route asks for its scope, from programs and browsers alike, and a page offers nothing that would be refused."""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select

from app.accounts import users
from app.accounts.models import Token
from app.accounts.service import create_token
from app.core.states import RunKind, RunState, Scope
from app.datasets.service import import_bytes
from app.site.factory import create_app
from app.web.http.security import PUBLIC, SAFE, get_scope, is_api, require_scopes

PASSWORD = "correct horse battery"
ID = "01900000-0000-7000-8000-000000000000"
TWINS = {
    "accounts.create_token": Scope.READ,
    "accounts.logout": Scope.READ,
    "accounts.revoke_token": Scope.READ,
    "advice.create": "advice_api.create",
    "complete.cancel": "runs_api.cancel",
    "complete.start": "complete_api.complete",
    "datasets.delete": "datasets_api.delete",
    "datasets.upload": "datasets_api.import_",
    "jobs.cancel": "jobs_api.cancel",
    "jobs.retry": "jobs_api.retry",
    "models.delete_drafter": "models_api.delete",
    "models.delete_model": "models_api.delete_model",
    "runs.annotate": "runs_api.annotate",
    "runs.cancel": "runs_api.cancel",
    "runs.create": "runs_api.create",
    "runs.resume": "runs_api.resume",
    "site.load_results": "studies_api.create",
    "studies.annotate": "studies_api.annotate",
    "studies.cancel": "studies_api.cancel",
    "studies.create": "studies_api.create",
    "studies.delete": "studies_api.delete",
    "studies.load": "studies_api.create",
    "studies.resume": "studies_api.resume",
}
"""The endpoint of the API that does what a page's form does, or the scope of a form that has none."""


@pytest.fixture
def app(world, monkeypatch) -> Flask:
    """The service as the stack runs it, with a user of each scope; argon2 takes little memory here."""
    monkeypatch.setattr(users, "_hasher", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
    users._placeholder_hash.cache_clear()
    ctx = world.context
    settings = ctx.settings.model_copy(update={"require_tokens": True, "rate_limit": ""})
    for scope in Scope:
        users.create_user(ctx, scope, PASSWORD, scope)
    return create_app(dataclasses.replace(ctx, settings=settings))


def find_csrf_token(page: str) -> str:
    return re.search(r'name="csrf_token" value="([^"]+)"', page)[1]


def sign_in(app: Flask, scope: Scope) -> FlaskClient:
    """A browser in which the user of this scope has signed in."""
    client = app.test_client()
    form = {"name": scope, "password": PASSWORD, "csrf_token": find_csrf_token(client.get("/login").text)}
    assert client.post("/login", data=form).status_code == 303
    return client


def list_routes(app: Flask) -> Iterator[tuple[str, str, str]]:
    """(endpoint, method, address) of each route that is not public; the address names nothing that exists."""
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<int:\w+>", "0", re.sub(r"<uuid:\w+>", ID, rule.rule))
        if rule.endpoint not in PUBLIC:
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                yield rule.endpoint, method, re.sub(r"<(?:path:)?\w+>", "x", path)


def is_refused(answer) -> bool:
    """Whether the caller's scope was too low; a 403 for another reason comes from the view."""
    with answer:
        return answer.status_code == 403 and "this needs the scope" in answer.text.casefold()


@pytest.fixture(autouse=True)
def no_reference_studies(monkeypatch) -> None:
    """What the form that loads them is asked for here is its scope; loading takes seconds."""
    monkeypatch.setattr("app.studies.pages.load_reference_studies", lambda _ctx: [uuid.UUID(ID)])
    monkeypatch.setattr("app.site.pages.load_reference_studies", lambda _ctx: [])


def test_every_route_asks_a_token_for_its_scope(app, world):
    for scope in Scope:
        client, bearer = app.test_client(), {"Authorization": f"Bearer {create_token(world.context, 't', scope)}"}
        word = find_csrf_token(client.get("/login").text)
        for endpoint, method, path in list_routes(app):
            form = {"csrf_token": word} if not is_api(path) else None
            answer = client.open(path, method=method, headers=bearer, data=form if method == "POST" else None)
            needed = get_scope(app.view_functions[endpoint], method)
            assert answer.status_code != 401, (endpoint, answer.text)
            assert is_refused(answer) is not scope.allows(needed), (scope, endpoint, method, answer.status_code)


def test_every_route_asks_a_browser_for_its_scope(app):
    for scope in Scope:
        client = sign_in(app, scope)
        word = find_csrf_token(client.get("/tokens").text)
        for endpoint, method, path in sorted(list_routes(app), key=lambda route: route[0] == "accounts.logout"):
            form = {"csrf_token": word} if method == "POST" else None
            answer = client.open(path, method=method, data=form)
            if is_api(path) and method not in SAFE:
                assert answer.status_code == 401, (endpoint, "a session changes nothing on the API")
                continue
            assert answer.status_code != 401, (endpoint, answer.text)
            needed = get_scope(app.view_functions[endpoint], method)
            assert is_refused(answer) is not scope.allows(needed), (scope, endpoint, method, answer.status_code)


def test_pages_and_api_ask_for_the_same_scope(app):
    forms = {endpoint for endpoint, method, path in list_routes(app) if method not in SAFE and not is_api(path)}
    assert forms == TWINS.keys()
    for endpoint, twin in TWINS.items():
        scope = twin if isinstance(twin, Scope) else _scope_of_endpoint(app, twin)
        assert _scope_of_endpoint(app, endpoint) is scope, endpoint


def test_what_deletes_needs_the_scope_admin(app):
    for endpoint, method, path in list_routes(app):
        if method == "DELETE" or path.endswith("/delete"):
            assert _scope_of_endpoint(app, endpoint) is Scope.ADMIN, endpoint


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_route_that_declares_no_scope_keeps_the_service_from_starting(app, method):
    app._got_first_request = False
    app.add_url_rule("/new", "new", lambda: "", methods=[method])
    with pytest.raises(LookupError, match="declares no scope"):
        require_scopes(app)
    client = sign_in(app, Scope.ADMIN)
    form = {"csrf_token": find_csrf_token(client.get("/tokens").text)}
    assert client.open("/new", method=method, data=form).status_code == 500


def test_no_page_shows_a_button_that_would_be_refused(app, world):
    ended = world.add_study({"name": "a"}, {"name": "b", "n": 2})
    running = world.add_study({"name": "c"}, {"name": "d", "state": RunState.RUNNING, "done": 3})
    halted = world.add_run("halted", state=RunState.CANCELLED, done=2)
    queued = world.add_run("queued", state=RunState.QUEUED, done=0)
    completion = world.add_run("prompt", kind=RunKind.COMPLETION, limit=1)
    task = {"prompt": "def f():\n", "entry_point": "f", "test": "def check(candidate):\n    pass\n"}
    rows = "\n".join(json.dumps({"task_id": f"f/{i}", "canonical_solution": "    pass\n", **task}) for i in range(2))
    dataset = import_bytes(world.context, rows.encode(), "mine", "mine")
    pages = [
        *("/", "/runs", "/runs/new", "/studies", "/studies/new", "/complete", "/datasets", "/tokens", "/try"),
        *(f"/studies/{study}?tab={tab}" for study in (ended, running) for tab in ("answer", "samples", "arms")),
        *(f"/runs/{run}" for run in (halted, queued)),
        *(f"/complete/{completion}", f"/datasets/{dataset.id}", "/models", "/workers"),
    ]
    sent = {}
    for scope in Scope:
        client = sign_in(app, scope)
        for page in pages:
            answer = client.get(page)
            assert answer.status_code == 200, (page, answer.text)
            for endpoint in find_form_endpoints(app, answer.text):
                sent.setdefault(endpoint, set()).add(scope)
                assert scope.allows(_scope_of_endpoint(app, endpoint)), (scope, page, endpoint)
            if not scope.allows(Scope.SUBMIT):
                assert not re.search(r'class="button[^>]*href="/(runs|studies)/new', answer.text), page
    assert {"studies.delete", "studies.cancel", "runs.cancel", "runs.resume", "runs.create"} <= sent.keys()
    assert {"datasets.upload", "complete.start", "studies.create", "advice.create"} <= sent.keys()
    assert sent["studies.delete"] == {Scope.ADMIN}
    assert sent["runs.create"] == {Scope.SUBMIT, Scope.ADMIN}


def find_form_endpoints(app: Flask, page: str) -> set[str]:
    """The endpoints to which forms and buttons of a page post."""
    forms = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]+)"', page)
    buttons = re.findall(r'<button[^>]*formmethod="post"[^>]*formaction="([^"]+)"', page)
    adapter = app.url_map.bind("localhost")
    return {adapter.match(address.partition("?")[0], method="POST")[0] for address in [*forms, *buttons]}


@pytest.mark.parametrize("scope", [Scope.READ, Scope.SUBMIT])
def test_a_token_neither_lists_nor_makes_nor_revokes_tokens_of_others(app, world, scope):
    client = app.test_client()
    token, others = (
        create_token(world.context, name, kind) for name, kind in (("own", scope), ("strong", Scope.ADMIN))
    )
    bearer = {"Authorization": f"Bearer {token}"}
    page = client.get("/tokens", headers=bearer).text
    assert "strong" not in page
    word = find_csrf_token(client.get("/login").text)
    made = client.post("/tokens", headers=bearer, data={"csrf_token": word, "name": "next", "scope": "read"})
    assert made.status_code == 403
    revoked = client.post(f"/tokens/{others.split('_')[1]}/revoke", headers=bearer, data={"csrf_token": word})
    assert revoked.status_code == 404
    with world.context.database.read() as session:
        assert [row.revoked_at for row in session.scalars(select(Token))] == [None, None]


def _scope_of_endpoint(app: Flask, endpoint: str) -> Scope:
    methods = {method for rule in app.url_map.iter_rules(endpoint) for method in (rule.methods or set()) - SAFE}
    (scope,) = {get_scope(app.view_functions[endpoint], method) for method in methods}
    return scope
