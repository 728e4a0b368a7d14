"""Signing in at an OpenID Connect provider: a real one on a socket, right and wrong in each way that it may be."""

from __future__ import annotations

import dataclasses
import logging
import time
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from joserfc.jwk import RSAKey
from pydantic import SecretStr
from sqlalchemy import select

from app.accounts import users
from app.accounts.models import User
from app.core.states import Scope
from app.site.factory import create_app
from tests.app.accounts.oidc_provider import CLIENT_ID, SECRET, Provider
from tests.app.accounts.test_accounts import PASSWORD, form_of, quick_hashes, sign_in  # noqa: F401 (fixture)


@pytest.fixture
def provider():
    found = Provider()
    yield found
    found.stop()


@pytest.fixture
def make_client(ctx, provider):
    """Makes a browser of the service, with other settings where they are given."""

    def make(**changed):
        given = {
            "require_tokens": True,
            "oidc_issuer": provider.issuer,
            "oidc_client_id": CLIENT_ID,
            "oidc_client_secret": SecretStr(SECRET),
            **changed,
        }
        return create_app(dataclasses.replace(ctx, settings=ctx.settings.model_copy(update=given))).test_client()

    return make


@pytest.fixture
def client(make_client):
    return make_client()


def enter(client, target=""):
    """Follows the browser to the provider and back."""
    return client.get(return_path(client, target))


def return_path(client, target="") -> str:
    """Where the provider sends the browser back to."""
    sent = client.get("/login/oidc", query_string={"next": target})
    assert sent.status_code == 302, sent.get_data(as_text=True)
    back = requests.get(sent.location, allow_redirects=False, timeout=60)
    assert back.status_code == 302, back.text
    parts = urlsplit(back.headers["Location"])
    return f"{parts.path}?{parts.query}"


def stored(ctx) -> list[User]:
    with ctx.database.read() as session:
        return list(session.scalars(select(User).order_by(User.name)))


def test_a_user_is_made_once_found_by_subject_and_signs_out(client, ctx, provider):
    page = client.get("/login?next=/runs").get_data(as_text=True)
    assert 'href="/login/oidc?next=/runs"' in page
    entered = enter(client, "/runs?state=failed")
    assert (entered.status_code, entered.location) == (303, "/runs?state=failed")
    page = client.get("/runs")
    assert page.status_code == 200
    assert 'title="You are ada@x.org">Sign out<' in page.get_data(as_text=True)
    (user,) = stored(ctx)
    assert (user.name, user.scope, user.oidc_issuer, user.oidc_subject) == ("ada@x.org", "read", provider.issuer, "7")
    provider.user["email"] = "ada@married.org"
    assert enter(client).status_code == 303
    assert [one.id for one in stored(ctx)] == [user.id]
    client.post("/logout", data=form_of(client.get("/runs")))
    assert client.get("/runs").status_code == 302


def test_the_email_may_come_from_the_userinfo_endpoint(client, ctx, provider):
    provider.email_in_token = False
    assert enter(client).status_code == 303
    assert [user.name for user in stored(ctx)] == ["ada@x.org"]


def test_the_operator_changes_the_scope_and_chooses_that_of_new_users(make_client, ctx):
    client = make_client(oidc_scope=Scope.SUBMIT)
    enter(client)
    assert stored(ctx)[0].scope is Scope.SUBMIT
    users.set_scope(ctx, "ada@x.org", Scope.ADMIN)
    enter(client)
    assert stored(ctx)[0].scope is Scope.ADMIN


def test_a_user_of_the_provider_has_no_password(client, ctx):
    enter(client)
    client.post("/logout", data=form_of(client.get("/runs")))
    for password in ("", PASSWORD, "no user has this password"):
        assert sign_in(client, "ada@x.org", password).status_code == 401


def test_a_name_that_a_local_user_has_is_not_taken_over(client, ctx):
    users.create_user(ctx, "ada@x.org", PASSWORD, Scope.ADMIN)
    refused = enter(client)
    assert refused.status_code == 409
    assert "another user has the name ada@x.org" in refused.get_data(as_text=True)
    assert client.get("/runs").status_code == 302


@pytest.mark.parametrize(
    "user", [{"email": None}, {"email_verified": False}, {"email_verified": None}, {"email_verified": "false"}]
)
def test_without_a_verified_email_nobody_enters(client, ctx, provider, user):
    provider.user |= user
    refused = enter(client)
    assert refused.status_code == 403
    assert "no verified e-mail address of yours" in refused.get_data(as_text=True)
    assert stored(ctx) == []


def test_only_the_named_domains_may_enter(make_client, ctx):
    refused = enter(make_client(oidc_domains="example.com x.org.evil"))
    assert refused.status_code == 403
    assert "ada@x.org may not sign in here: use an address of example.com" in refused.get_data(as_text=True)
    assert enter(make_client(oidc_domains="example.com X.org")).status_code == 303


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"aud": ["another client"]},
        {"nonce": "of another sign-in"},
        {"exp": int(time.time()) - 3600},
        {"alg": "none"},
    ],
    ids=lambda claims: next(iter(claims)),
)
def test_a_token_of_another_issuer_client_sign_in_or_time_is_refused(client, ctx, provider, claims):
    provider.claims = claims
    refused = enter(client)
    assert refused.status_code == 401
    assert "token is not valid (" in refused.get_data(as_text=True)
    assert client.get("/runs").status_code == 302
    assert stored(ctx) == []


def test_a_token_that_another_key_signed_is_refused_and_a_renewed_key_is_read_again(client, provider):
    assert enter(client).status_code == 303
    provider.signing_key = RSAKey.generate_key(2048, {"kid": "one"})
    assert enter(client).status_code == 401
    provider.key = provider.signing_key = RSAKey.generate_key(2048, {"kid": "two", "use": "sig"})
    assert enter(client).status_code == 303


def test_an_answer_counts_only_in_the_browser_that_asked_and_once(client, make_client):
    path = return_path(client)
    refused = make_client().get(path)
    assert refused.status_code == 401
    assert "did not begin in this browser" in refused.get_data(as_text=True)
    assert client.get(path).status_code == 303
    assert client.get(path).status_code == 401
    state = parse_qs(urlsplit(return_path(client)).query)["state"][0]
    forged = client.get("/login/oidc/callback", query_string={"state": state, "code": "guessed"})
    assert forged.status_code == 401
    assert "begin again" in forged.get_data(as_text=True)


def test_sign_ins_that_were_given_up_do_not_fill_the_cookie(client):
    for _ in range(20):
        client.get("/login/oidc")
    assert len(client.get_cookie("session").value) < 2000  # browsers refuse one above 4,096
    assert enter(client).status_code == 303


def test_a_refusal_of_the_provider_is_one_sentence(client, provider):
    provider.user = None
    refused = enter(client)
    assert refused.status_code == 401
    assert "the provider did not sign you in (access_denied)" in refused.get_data(as_text=True)
    hostile = client.get("/login/oidc/callback?error=<script>alert(1)</script>").get_data(as_text=True)
    assert "<script>alert" not in hostile


@pytest.mark.parametrize("wrong", [{"issuer": "https://evil.example"}, {"token_endpoint": None}])
def test_another_provider_is_refused_until_it_is_corrected(client, provider, wrong):
    provider.metadata = wrong
    refused = client.get("/login/oidc")
    assert refused.status_code == 503
    assert "set BASSLINE_OIDC_ISSUER to" in refused.get_data(as_text=True)
    provider.metadata = {}
    assert enter(client).status_code == 303


def test_a_provider_that_is_away_is_one_sentence_and_local_users_enter(make_client, ctx, provider):
    provider.stop()
    client = make_client()
    refused = client.get("/login/oidc")
    assert refused.status_code == 503
    assert f"the sign-in provider {provider.issuer} does not answer" in refused.get_data(as_text=True)
    users.create_user(ctx, "eve", PASSWORD, Scope.READ)
    assert sign_in(client, "eve").status_code == 303


def test_a_wrong_client_secret_is_one_sentence(make_client):
    refused = enter(make_client(oidc_client_secret=SecretStr("wrong")))
    assert refused.status_code == 401
    assert "did not confirm the sign-in (invalid_client)" in refused.get_data(as_text=True)


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "/\\evil.example"])
def test_signing_in_never_leads_to_another_site(client, target):
    assert enter(client, target).location == "/"


def test_no_secret_reaches_a_log_a_page_or_a_cookie(client, provider, caplog, ctx):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("authlib").setLevel(logging.WARNING)
    path = return_path(client)
    code = parse_qs(urlsplit(path).query)["code"][0]
    pages = [client.get("/login"), client.get(path), client.get("/tokens")]
    seen = caplog.text + "".join(page.get_data(as_text=True) + str(page.headers) for page in pages)
    tokens = list(provider.tokens)
    assert tokens
    for secret in (SECRET, code, *tokens):
        assert secret not in seen
    assert SECRET not in repr(client.application.extensions["bassline"].settings)


def test_a_service_without_a_provider_shows_none(make_client):
    client = make_client(oidc_issuer="")
    assert "organization" not in client.get("/login").get_data(as_text=True)
    assert client.get("/login/oidc").status_code == 404
    assert client.get("/login/oidc/callback").status_code == 404
