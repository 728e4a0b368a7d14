"""Who may do what: tokens with scopes, people with passwords and sessions, and what neither may do."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import subprocess
import sys
import threading
import urllib.request

import pytest
from argon2 import PasswordHasher
from click.testing import CliRunner
from sqlalchemy import event, select

from app.accounts import models as accounts_models
from app.accounts import service as accounts_service
from app.accounts import users
from app.accounts.models import BrowserSession, Token, User
from app.accounts.service import create_token, list_tokens, revoke_token
from app.cli.main import cli
from app.core.db.types import get_utc_time
from app.core.errors import BadInputError, ForbiddenError
from app.core.states import Scope
from app.jobs import retention
from app.site.factory import create_app
from app.web.http.security import LOCAL, PUBLIC, is_api
from app.web.http.waitress_server import WaitressServer

PASSWORD = "correct horse battery"
BODY = {"target": "smollm2-135m", "dataset": "additions", "n": 2, "budget_s": 5}


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch):
    """argon2 with little memory: its strength is not what is tested here, and its cost would be most of the time."""
    monkeypatch.setattr(users, "_hasher", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
    users._placeholder_hash.cache_clear()
    yield
    users._placeholder_hash.cache_clear()


def test_no_import_pays_for_a_password_hash():
    code = "import argon2; argon2.PasswordHasher.hash = None; import app.accounts.users"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def guarded(ctx):
    """The service as the stack runs it: tokens and logins required."""
    return dataclasses.replace(ctx, settings=ctx.settings.model_copy(update={"require_tokens": True}))


@pytest.fixture
def client(guarded):
    return create_app(guarded).test_client()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def form_of(page, **values) -> dict[str, str]:
    found = re.search(r'name="csrf_token" value="([^"]+)"', page.get_data(as_text=True))
    assert found
    return {"csrf_token": found[1], **values}


def sign_in(client, name="ada", password=PASSWORD, target=""):
    form = form_of(client.get("/login"), name=name, password=password, next=target)
    return client.post("/login", data=form)


def test_only_a_valid_token_gets_in_and_nothing_but_a_digest_is_stored(client, ctx):
    token = create_token(ctx, "laptop", Scope.READ)
    refused = client.get("/api/v1/runs")
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    assert client.get("/api/v1/runs", headers=bearer(token + "x")).status_code == 401
    assert client.get("/api/v1/runs", headers={"Authorization": "Basic eDp5"}).status_code == 401
    assert client.get("/api/v1/runs", headers=bearer(token)).status_code == 200
    with ctx.database.read() as session:
        row = session.scalars(select(Token)).one()
    assert token.split("_", 2)[2] not in str(vars(row))
    revoke_token(ctx, row.prefix)
    assert client.get("/api/v1/runs", headers=bearer(token)).status_code == 401


def test_every_route_asks_who_calls_but_for_a_short_list(client, guarded):
    app = create_app(guarded)
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<uuid:\w+>", "01900000-0000-7000-8000-000000000000", rule.rule)
        path = re.sub(r"<int:\w+>", "0", re.sub(r"<(?:path:)?\w+>", "x", path))
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            answer = client.open(path, method=method)
            if rule.endpoint in PUBLIC:
                assert answer.status_code not in (401, 403), rule
            elif method == "GET" and not is_api(path):
                assert answer.location.startswith("/login?next="), rule
            else:
                assert answer.status_code == 401, rule


def test_a_person_signs_in_sees_the_pages_and_signs_out(client, ctx):
    users.create_user(ctx, "ada", PASSWORD, Scope.SUBMIT)
    assert client.get("/runs?state=failed").location == "/login?next=/runs?state%3Dfailed"
    entered = sign_in(client, target="/runs?state=failed")
    assert entered.location == "/runs?state=failed"
    assert "HttpOnly" in entered.headers["Set-Cookie"]
    assert "SameSite=Lax" in entered.headers["Set-Cookie"]
    assert client.get("/runs").status_code == 200
    page = client.get("/tokens")
    for shown in (page, client.get("/"), client.get("/datasets"), client.get("/nothing here")):
        assert 'title="You are ada">Sign out<' in shown.get_data(as_text=True)
    client.post("/logout", data=form_of(page))
    assert client.get("/runs").status_code == 302
    assert "Sign out" not in client.get("/login").get_data(as_text=True)


def stolen(guarded, client):
    """Another browser with a copy of the client's cookie."""
    thief = create_app(guarded).test_client()
    thief.application.secret_key = client.application.secret_key
    thief.set_cookie("session", client.get_cookie("session").value)
    return thief


def test_a_copy_of_the_cookie_is_worth_nothing_once_its_owner_has_signed_out(client, guarded, ctx):
    users.create_user(ctx, "ada", PASSWORD, Scope.ADMIN)
    elsewhere = create_app(guarded).test_client()
    sign_in(elsewhere)
    sign_in(client)
    thief = stolen(guarded, client)
    assert thief.get("/api/v1/runs").status_code == 200
    client.post("/logout", data=form_of(client.get("/tokens")))
    assert thief.get("/api/v1/runs").status_code == 401
    assert thief.get("/runs").status_code == 302
    assert elsewhere.get("/runs").status_code == 200  # signing out is of one browser


@pytest.mark.parametrize("end", ["password", "delete", "sign in again"])
def test_so_it_is_after_a_new_password_a_new_sign_in_or_with_the_user(client, guarded, ctx, end):
    users.create_user(ctx, "ada", PASSWORD, Scope.ADMIN)
    sign_in(client)
    thief = stolen(guarded, client)
    assert thief.get("/api/v1/runs").status_code == 200
    if end == "password":
        users.set_password(ctx, "ada", PASSWORD + "!")
        assert sign_in(client).status_code == 401
        assert sign_in(client, password=PASSWORD + "!").status_code == 303
    elif end == "delete":
        users.delete_user(ctx, "ada")
    else:
        sign_in(client)
    assert thief.get("/api/v1/runs").status_code == 401


def test_a_session_ends_after_its_time_and_its_row_is_swept(client, ctx, monkeypatch):
    users.create_user(ctx, "ada", PASSWORD, Scope.ADMIN)
    sign_in(client)
    later = users.get_utc_time() + users.SESSION_LIFETIME
    monkeypatch.setattr(users, "get_utc_time", lambda: later)
    assert client.get("/api/v1/runs").status_code == 401
    monkeypatch.setattr(retention, "get_utc_time", lambda: later + dt.timedelta(seconds=1))
    retention.delete_expired(ctx)
    with ctx.database.read() as session:
        assert session.scalars(select(BrowserSession)).all() == []


def test_the_cookie_is_secure_when_the_browser_came_over_https(guarded):
    behind = dataclasses.replace(guarded, settings=guarded.settings.model_copy(update={"proxies": 1}))
    users.create_user(guarded, "ada", PASSWORD, Scope.READ)
    client = create_app(behind).test_client()
    client.environ_base["HTTP_X_FORWARDED_PROTO"] = "https"
    headers = {"Referer": "https://localhost/login"}  # CSRF protection asks for it over https
    form = form_of(client.get("/login", base_url="https://localhost"), name="ada", password=PASSWORD)
    entered = client.post("/login", data=form, headers=headers, base_url="https://localhost")
    assert entered.status_code == 303
    assert "Secure" in entered.headers["Set-Cookie"]


def test_the_embedded_server_passes_on_what_a_counted_proxy_says(guarded):
    behind = dataclasses.replace(guarded, settings=guarded.settings.model_copy(update={"proxies": 1}))
    server = WaitressServer(create_app(behind), "127.0.0.1", 0)
    threading.Thread(target=server.run, daemon=True).start()
    try:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{server.effective_port}/login", headers={"X-Forwarded-Proto": "https"}
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert "Secure" in answer.headers["Set-Cookie"]
    finally:
        server.close()


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong horse battery"), ("eve", PASSWORD), ("", "")])
def test_a_wrong_name_and_a_wrong_password_are_answered_alike(client, ctx, name, password):
    users.create_user(ctx, "ada", PASSWORD, Scope.ADMIN)
    answer = sign_in(client, name, password)
    assert answer.status_code == 401
    assert "name or password is wrong" in answer.get_data(as_text=True)
    assert client.get("/runs").status_code == 302


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "////evil.example/a", "/\\evil.example", "/\t/evil.example"]
)
def test_signing_in_never_leads_to_another_site(client, ctx, target):
    users.create_user(ctx, "ada", PASSWORD, Scope.READ)
    assert sign_in(client, target=target).location == "/"


def test_guessing_passwords_is_slowed_down(client):
    form = form_of(client.get("/login"), name="ada", password="x")
    answers = [client.post("/login", data=form) for _ in range(11)]
    assert [a.status_code for a in answers] == [401] * 10 + [429]
    assert int(answers[-1].headers["Retry-After"]) > 0


def test_a_deleted_user_is_gone_with_their_tokens(client, ctx):
    users.create_user(ctx, "ada", PASSWORD, Scope.ADMIN)
    sign_in(client)
    page = client.get("/tokens")
    made = client.post("/tokens", data=form_of(page, name="laptop", scope="read")).get_data(as_text=True)
    token = re.search(r"bass_\w{8}_[\w-]+", made)[0]
    assert client.get("/api/v1/runs", headers=bearer(token)).status_code == 200
    assert token not in client.get("/tokens").get_data(as_text=True)
    users.delete_user(ctx, "ada")
    assert client.get("/runs").status_code == 302
    assert client.get("/api/v1/runs", headers=bearer(token)).status_code == 401


def test_a_session_reads_the_api_for_the_pages_but_changes_need_a_token(client, ctx):
    users.create_user(ctx, "ada", PASSWORD, Scope.ADMIN)
    sign_in(client)
    assert client.get("/api/v1/runs").status_code == 200
    assert client.post("/api/v1/runs", json=BODY).status_code == 401


def test_forms_need_the_word_only_our_pages_know(client, ctx):
    users.create_user(ctx, "ada", PASSWORD, Scope.ADMIN)
    sign_in(client)
    assert client.post("/tokens", data={"name": "x", "scope": "read"}).status_code == 400


def test_nobody_gives_more_than_they_have_or_touches_what_is_not_theirs(client, ctx):
    users.create_user(ctx, "ada", PASSWORD, Scope.READ)
    theirs = create_token(ctx, "another's", Scope.ADMIN)
    sign_in(client)
    page = client.get("/tokens")
    assert "another" not in page.get_data(as_text=True)
    assert client.post("/tokens", data=form_of(page, name="up", scope="admin")).status_code == 403
    prefix = theirs.split("_")[1]
    assert client.post(f"/tokens/{prefix}/revoke", data=form_of(page)).status_code == 404
    assert client.get("/api/v1/runs", headers=bearer(theirs)).status_code == 200


def test_a_token_loses_what_its_user_loses(client, ctx):
    users.create_user(ctx, "ada", PASSWORD, Scope.ADMIN)
    sign_in(client)
    made = client.post("/tokens", data=form_of(client.get("/tokens"), name="t", scope="admin")).get_data(as_text=True)
    token = re.search(r"bass_\w{8}_[\w-]+", made)[0]
    with ctx.database.session() as session:
        session.scalars(select(User)).one().scope = Scope.READ
    assert client.post("/api/v1/runs", json=BODY, headers=bearer(token)).status_code == 403


def test_without_tokens_this_machine_needs_no_login(ctx):
    client = create_app(ctx).test_client()
    assert client.get("/login").location == "/"
    page = client.get("/tokens")
    assert "only this machine can reach it" in page.get_data(as_text=True)
    assert client.post("/tokens", data=form_of(page, name="", scope="read")).status_code == 422
    assert client.post("/tokens", data=form_of(page, name="ci", scope="read")).status_code == 200
    with ctx.database.read() as session:
        assert [(t.name, t.scope) for t in list_tokens(session)] == [("ci", Scope.READ)]


def test_passwords_are_long_enough_and_names_unique(ctx):
    with pytest.raises(BadInputError, match="give 12 to"):
        users.create_user(ctx, "ada", "short", Scope.READ)
    with pytest.raises(ForbiddenError):
        create_token(ctx, "up", Scope.ADMIN, dataclasses.replace(LOCAL, scope=Scope.READ))


def test_users_and_tokens_at_the_command_line(ctx, monkeypatch):
    monkeypatch.setenv("BASSLINE_DATABASE_URL", ctx.settings.effective_database_url)

    def run(*words: str, typed: str | None = None):
        return CliRunner().invoke(cli, list(words), input=typed)

    assert run("users", "create", "ada", "--scope", "admin", typed=f"{PASSWORD}\n{PASSWORD}\n").exit_code == 0
    assert run("users", "create", "ada", typed=f"{PASSWORD}\n{PASSWORD}\n").exit_code == 1
    assert "ada" in run("users", "list").output
    assert run("users", "scope", "ada", "read").output == "user ada may read\n"
    assert run("users", "scope", "eve", "read").exit_code == 2
    token = run("tokens", "create", "ci", "--scope", "read", "--expires", "12h").output.strip()
    refused = run("tokens", "create", "ci", "--expires", "0d")
    assert refused.exit_code == 2
    assert "expires is '0d': give days or hours such as 90d or 12h, or never" in refused.output
    listed = run("tokens", "list").output
    assert "valid" in listed
    assert "read" in listed
    assert token not in listed
    assert run("users", "delete", "ada").exit_code == 0
    assert run("users", "delete", "ada").exit_code == 2


def test_a_token_expires(client, ctx, monkeypatch):
    token = create_token(ctx, "ci", Scope.READ, lifetime=dt.timedelta(days=90))
    lasting = create_token(ctx, "robot", Scope.READ)
    assert client.get("/api/v1/runs", headers=bearer(token)).status_code == 200
    later = get_utc_time() + dt.timedelta(days=91)
    for module in (accounts_models, accounts_service):
        monkeypatch.setattr(module, "get_utc_time", lambda: later)
    refused = client.get("/api/v1/runs", headers=bearer(token))
    assert refused.status_code == 401
    assert re.search(r"the token expired on \d{4}-\d\d-\d\d: make another one", refused.get_json()["detail"])
    assert client.get("/api/v1/runs", headers=bearer(lasting)).status_code == 200
    with ctx.database.read() as session:
        assert {t.name: t.state for t in list_tokens(session)} == {"ci": "expired", "robot": "valid"}


def test_the_page_of_tokens_offers_lifetimes(client, ctx):
    users.create_user(ctx, "ada", PASSWORD, Scope.READ)
    sign_in(client)
    page = client.get("/tokens")
    assert re.search(r'<option value="90d" selected>', page.get_data(as_text=True))
    wrong = client.post("/tokens", data=form_of(page, name="x", scope="read", expires="soon"))
    assert wrong.status_code == 422
    assert "give days or hours such as 90d or 12h, or never" in wrong.get_data(as_text=True)
    assert client.post("/tokens", data=form_of(page, name="x", scope="read", expires="30d")).status_code == 200
    with ctx.database.read() as session:
        (token,) = session.scalars(select(Token)).all()
    assert dt.timedelta(days=29) < token.expires_at - get_utc_time() <= dt.timedelta(days=30)
    assert f"{token.expires_at:%Y}" in client.get("/tokens").get_data(as_text=True)


def test_many_invalid_tokens_of_one_address_cost_the_database_nothing_and_lock_nobody_out(client, ctx):
    token, other = create_token(ctx, "known", Scope.READ), create_token(ctx, "other", Scope.READ)
    assert client.get("/api/v1/runs", headers=bearer(token)).status_code == 200
    statuses = [client.get("/api/v1/runs", headers=bearer(f"bass_{i:08d}_x")).status_code for i in range(60)]
    assert set(statuses) == {401}
    statements: list[str] = []
    event.listen(ctx.database.engine, "before_cursor_execute", lambda _c, _r, text, *_: statements.append(text))
    refused = client.get("/api/v1/runs", headers=bearer("bass_00000000_x"))
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert statements == []
    assert client.get("/api/v1/runs", headers=bearer(token)).status_code == 200
    assert (
        client.get("/api/v1/runs", headers=bearer(other), environ_base={"REMOTE_ADDR": "10.0.0.9"}).status_code == 200
    )
    revoke_token(ctx, token.split("_")[1])
    assert client.get("/api/v1/runs", headers=bearer(token)).status_code == 401
