"""Other sites neither act through a browser nor get one sent to them, and nobody is told to wait longer than needed."""

from __future__ import annotations

import dataclasses

import pytest

from app.accounts.service import create_token
from app.core.states import Scope
from app.site.factory import create_app
from app.web.http.sites import is_own_path

BODY = {"target": "smollm2-135m", "dataset": "additions", "n": 2, "budget_s": 5}


@pytest.fixture
def client(ctx):
    return create_app(ctx).test_client()


@pytest.mark.parametrize(
    "target",
    [
        "////evil.com/a",
        "//evil.com",
        "/\\evil.com",
        "\\\\evil.com",
        "/\t/evil.com",
        "\t//evil.com",
        "/\x00/evil.com",
        "/runs\r\nSet-Cookie: a=b",
        "https:evil.com",
        "https://evil.com",
        "javascript:alert(1)",
        "evil.com",
        "?next=//evil.com",
        "",
    ],
)
def test_an_address_that_may_lead_away_is_not_our_own(target):
    assert not is_own_path(target)


@pytest.mark.parametrize("target", ["/", "/runs?state=failed", "/runs/1/tasks/a b", "/runs?name=//x", "/é", "/a//b"])
def test_a_path_of_the_service_is(target):
    assert is_own_path(target)


@pytest.mark.usefixtures("additions")
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.com"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Origin": "http://localhost.evil.com"},
        {"Origin": "http://[evil"},
        {"Origin": "http://evil.com", "Sec-Fetch-Site": "same-origin"},
        {"Referer": "http://evil.com/page"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_neither_submits_nor_cancels(client, headers):
    made = client.post("/api/v1/runs", json=BODY, headers={"Origin": "http://localhost"})
    assert made.status_code == 201
    assert client.post("/api/v1/runs", json=BODY, headers=headers).status_code == 403
    assert client.post(f"{made.location}/cancel", headers=headers).status_code == 403
    assert client.delete(made.location, headers=headers).status_code == 403
    ask = {"model": BODY["target"], "prompt": "x"}
    assert client.post("/v1/completions", json=ask, headers=headers).status_code == 403
    read = client.get(made.location, headers=headers)
    assert read.json["run"]["state"] == "queued"
    assert "frame-ancestors 'none'" in read.headers["Content-Security-Policy"]


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]", "LOCALHOST"])
def test_this_machine_may_be_called_by_each_of_its_names(client, host):
    assert client.get("/api/v1/runs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("embedded", [True, False])
@pytest.mark.parametrize("host", ["evil.com", "evil.com:8000", "127.0.0.1.evil.com", "localhost@evil.com", "1.2.3.4"])
def test_without_tokens_another_name_is_refused_in_either_form(ctx, host, embedded):
    broker = "memory://" if embedded else "redis://127.0.0.1:1/0"
    settings = ctx.settings.model_copy(update={"broker_url": broker, "secret_key": "s"})
    client = create_app(dataclasses.replace(ctx, settings=settings)).test_client()
    assert client.get("/api/v1/runs", headers={"Host": host}).status_code in (400, 403)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is_known_by_its_address(client, address):
    assert client.get("/api/v1/runs", environ_base={"REMOTE_ADDR": address}).status_code == 200


@pytest.mark.parametrize("address", ["192.168.1.5", "203.0.113.9", "::ffff:192.168.1.5", "fe80::1", "", "unix"])
def test_without_tokens_another_machine_is_refused_whatever_host_it_names(client, address):
    for path in ("/api/v1/runs", "/v1/models", "/"):
        answer = client.get(path, environ_base={"REMOTE_ADDR": address}, headers={"Host": "localhost"})
        assert answer.status_code == 403
        assert "BASSLINE_REQUIRE_TOKENS" in answer.get_data(as_text=True)


def test_behind_a_proxy_the_client_counts_and_not_the_proxy(ctx):
    settings = ctx.settings.model_copy(update={"proxies": 1})
    client = create_app(dataclasses.replace(ctx, settings=settings)).test_client()
    for sender, status in (("127.0.0.1", 200), ("203.0.113.9", 403)):
        headers = {"X-Forwarded-For": sender, "X-Forwarded-Host": "localhost"}
        assert client.get("/api/v1/runs", headers=headers).status_code == status


def test_with_tokens_another_machine_is_served(ctx):
    settings = ctx.settings.model_copy(update={"require_tokens": True})
    client = create_app(dataclasses.replace(ctx, settings=settings)).test_client()
    token = {"Authorization": f"Bearer {create_token(ctx, 'far', Scope.READ)}", "Host": "bassline.example"}
    assert client.get("/api/v1/runs", headers=token, environ_base={"REMOTE_ADDR": "203.0.113.9"}).status_code == 200


@pytest.mark.usefixtures("additions")
def test_who_is_told_to_come_back_is_told_so_in_seconds_not_at_the_end_of_the_limiters_window(client, ctx):
    for _ in range(ctx.settings.max_streams):
        ctx.completion_slots.acquire()
    for path, body in [
        ("/v1/completions", {"model": "smollm2-135m", "prompt": "x"}),
        ("/api/v1/complete", {"target": "smollm2-135m", "prompt": "x"}),
    ]:
        busy = client.post(path, json=body)
        assert (busy.status_code, busy.headers["Retry-After"]) == (503, "2")
    # OpenAI's client obeys it on conflicts and faults as well
    for answer in (client.get("/api/v1/runs"), client.get("/v1/nothing"), client.post("/api/v1/runs", json={})):
        assert "Retry-After" not in answer.headers
