"""Secrets stay out of what is stored, logged or shown; wrong addresses are refused where they are given."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest
from click.testing import CliRunner

from app.cli.main import cli
from app.core import ports
from app.core.errors import BadInputError
from app.core.remote import connection
from app.core.remote.engine import RemoteEngine
from app.core.remote.target import (
    HEADERS_VARIABLE,
    KEY_VARIABLE,
    RemoteTarget,
    add_extra_body,
    load_secret_headers,
    parse_target,
)
from app.jobs.embedded import EmbeddedWorkers
from app.runs import service
from app.runs.repository import get_run, list_runs
from app.site.factory import create_app
from app.studies import service as studies
from app.studies.schemas import StudySpec
from app.web.http.schemas import parse_spec
from tests.app.stub_server import CHAT, COMPLETIONS, DONE, Reply, choice, event, serve_stub, tokens
from tests.integration.waiting import wait_for

SECRETS = {KEY_VARIABLE: "sk-very-secret-key", HEADERS_VARIABLE: json.dumps({"x-api-key": "very-secret-header"})}


def tell_secrets(reply: Reply, body: dict) -> None:
    """A server that repeats what it was sent in its errors, and refuses some tasks."""
    said = f"{reply.headers['Authorization']} {reply.headers['x-api-key']}"
    if reply.path == CHAT or "n" in body or "secret" in body["prompt"]:
        reply.refuse(f"no: {said}", 500)
    elif body["prompt"].startswith("def add") and "stop" in body:
        reply.start().write(event({"index": 0, "text": "    "}), event(error={"message": said}))
    else:
        reply.start().write(event(choice("x", "stop", logprobs=tokens("x"))), DONE)


def test_secrets_are_sent_and_are_in_no_row_log_page_or_archive(ctx, spec, monkeypatch, capfd):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    ctx.load_engine = ports.load_engine
    pages = {"/version": lambda: {"version": "1 for sk-very-secret-key"},
             "/props": {"build_info": "b1 very-secret-header", "speculative": "sk-very-secret-key"}}  # fmt: skip
    with serve_stub(tell_secrets, (COMPLETIONS, CHAT), pages) as stub, EmbeddedWorkers(ctx, "test", pinned_only=True):
        run_id = service.submit(ctx, spec(target=f"openai:m@{stub.url}"), pinned_worker=ctx.worker_name)

        def state():
            with ctx.database.read() as session:
                return get_run(session, run_id).state

        wait_for(lambda: state() in ("finished", "failed"))
        assert {header["x-api-key"] for header in stub.headers} == {"very-secret-header"}
        assert {header["Authorization"] for header in stub.headers} == {"Bearer sk-very-secret-key"}
        assert len([body for body in stub.bodies if "stop" in body]) > 1
        client = create_app(ctx).test_client()
        told = [client.get(f"/runs/{run_id}").text, client.get(f"/api/v1/runs/{run_id}").text]
        told += [client.get(f"/api/v1/runs/{run_id}/{page}").text for page in ("samples", "export")]
    stored = b"".join(file.read_bytes() for file in ctx.settings.data_dir.rglob("*") if file.is_file())
    assert b"server_dialects" in stored
    out, err = capfd.readouterr()
    everything = "\n".join([*told, out, err, stored.decode("utf-8", "replace")])
    assert "***" in everything
    assert "very-secret" not in everything


@pytest.mark.parametrize("text", ["[]", "x", '{"a": 1}', '{"a b": "c"}', '{"a": "c\\nd: e"}'])
def test_secret_headers_that_are_no_headers_are_refused_without_being_told(text, monkeypatch):
    monkeypatch.setenv(HEADERS_VARIABLE, text)
    with pytest.raises(BadInputError, match=f"{HEADERS_VARIABLE} is not a JSON object of texts: write it as"):
        load_secret_headers("")


@pytest.mark.parametrize("key", ['{"a": "sk-1"}', '{"http://h/v1": 1}', "{sk"])
def test_a_key_that_is_neither_a_text_nor_by_endpoint_is_refused_without_being_told(key, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(BadInputError, match=f"{KEY_VARIABLE} is not a key: write it as sk-...") as refused:
        load_secret_headers("http://h/v1")
    assert "sk-1" not in str(refused.value)


def test_an_endpoint_gets_its_own_secrets_and_no_other_ones(monkeypatch):
    with serve_stub(tell_secrets) as first, serve_stub(tell_secrets) as second, serve_stub(tell_secrets) as third:
        monkeypatch.setenv(KEY_VARIABLE, json.dumps({first.url: "sk-first", f"{second.url}/": "sk-second"}))
        monkeypatch.setenv(HEADERS_VARIABLE, json.dumps({first.url: {"x-api-key": "header-first"}}))
        for stub in (first, second, third):
            RemoteEngine.load(RemoteTarget("m", stub.url))
    sent = [{(each["Authorization"], each["x-api-key"]) for each in stub.headers} for stub in (first, second, third)]
    assert sent == [{("Bearer sk-first", "header-first")}, {("Bearer sk-second", None)}, {("Bearer none", None)}]


@pytest.mark.parametrize(("name", "value"), [(KEY_VARIABLE, "sk-one"), (HEADERS_VARIABLE, '{"x-api-key": "one"}')])
def test_a_secret_that_does_not_say_for_which_endpoint_it_is_goes_to_none_of_several(ctx, name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with serve_stub(tell_secrets) as first, serve_stub(tell_secrets) as second:
        arms = [{"target": f"openai:m@{stub.url}"} for stub in (first, second)]
        study = parse_spec(StudySpec, {"dataset": "humaneval", "limit": 1, "arms": arms})
        with pytest.raises(BadInputError, match=f"{name} does not say which of 2 endpoints gets it: write it as"):
            studies.submit(ctx, study, pinned_worker=ctx.worker_name)
        settings = ctx.settings.model_copy(update={"remote_endpoints": f"{first.url} {second.url}"})
        with pytest.raises(BadInputError, match=f"{name} does not say which of 2 endpoints gets it"):
            service.require_allowed_models(replace(ctx, settings=settings), f"openai:m@{first.url}", "none")
        assert first.headers == second.headers == []


def list_wrong_addresses(stub_url: str) -> dict[str, str]:
    """Addresses, and what the refusal says of each."""
    return {
        "http://127.0.0.1:9/v1": "cannot be reached: .*; start the server, or correct the address",
        "http://no-such-host.invalid/v1": "cannot be reached: .*; start the server, or correct the address",
        stub_url.replace("http:", "https:"): "cannot be reached: .*SSL.*; check its certificate, or SSL_CERT_FILE",
        stub_url.removesuffix("/v1"): f"has no models, {stub_url} has: use that address",
        "http://127.0.0.1:99999/v1": "Port out of range",
        "http:///v1": "use openai:MODEL@http://HOST/v1",
        f"{stub_url}#[1]": "extra_body is not a JSON object",
        f'{stub_url}#{{"n":3}}': "extra_body sets n, which a run sets itself: leave it out",
    }


def test_a_wrong_address_is_one_sentence_and_nothing_is_stored(ctx, spec):
    with serve_stub(lambda reply, _: None, pages={"/v1/models": {"data": []}}) as stub:
        addresses = list_wrong_addresses(stub.url)
        allowed = " ".join(address.partition("#")[0] for address in addresses)
        settings = ctx.settings.model_copy(update={"remote_endpoints": allowed})
        ctx = replace(ctx, settings=settings)
        client = create_app(ctx).test_client()
        for address, sentence in addresses.items():
            with pytest.raises(BadInputError, match=sentence):
                service.submit(ctx, spec(target=f"openai:m@{address}"), pinned_worker="here")
            body = {"target": f"openai:m@{address}", "dataset": spec().dataset, "n": 1}
            answer = client.post("/api/v1/runs", json=body)
            assert (answer.status_code, answer.content_type) == (422, "application/problem+json"), answer.text
    with ctx.database.read() as session:
        assert list(list_runs(session)) == []


def test_a_server_that_is_slow_to_start_is_not_waited_for_at_the_door(ctx, spec, monkeypatch):
    monkeypatch.setattr(connection, "PAGE_S", 0.2)
    monkeypatch.setattr(connection, "CONNECT_S", 0.2)
    released = threading.Event()
    with serve_stub(lambda *_: None, pages={"/v1/models": lambda: released.wait(60) and {}}) as stub:
        with pytest.raises(BadInputError, match=r"did not answer within .*: wait until it has loaded its model"):
            service.submit(ctx, spec(target=f"openai:m@{stub.url}"), pinned_worker="here")
        released.set()


def test_a_submitted_run_sends_no_request_to_an_endpoint_that_is_not_listed(ctx, spec):
    with serve_stub(lambda *_: None) as stub:
        with pytest.raises(BadInputError, match="BASSLINE_REMOTE_ENDPOINTS"):
            service.submit(ctx, spec(target=f"openai:m@{stub.url}"))
        assert stub.headers == []


def test_the_command_ends_with_2_and_the_sentence(tmp_path):
    runner = CliRunner(env={"BASSLINE_DATA_DIR": str(tmp_path)})
    result = runner.invoke(cli, ["eval", "--target", "openai:m@http://127.0.0.1:9/v1", "--limit", "1"])
    assert result.exit_code == 2
    assert "start the server, or correct the address" in result.stderr
    result = runner.invoke(cli, ["eval", "--target", "smollm2-135m", "--extra-body", "{}"])
    assert (result.exit_code, "extra_body has no place" in result.stderr) == (2, True)


def test_fields_for_every_request_survive_the_way_into_the_target():
    text = '{"a b": {"c#d%": "é&+ "}, "top_k": 1}'
    target = add_extra_body("openai:m@http://h/v1", text)
    assert " " not in target
    assert parse_target(target).extra_body == json.loads(text)
    assert parse_target(target).base_url == "http://h/v1"
