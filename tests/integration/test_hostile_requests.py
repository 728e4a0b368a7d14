"""Whatever texts, numbers and depths a request holds: on either database no address answers with a fault of ours."""

from __future__ import annotations

import io
import json
import re

import pytest

from app.accounts.service import create_token
from app.completions import waiting
from app.completions.schemas import CompletionSpec
from app.core.errors import BadInputError
from app.core.states import Scope
from app.jobs.work.decode import decode_task
from app.openai import service
from app.openai.schemas import ChatRequest, CompletionRequest
from app.runs.repository import load_tasks_with_logprobs
from app.runs.schemas import RunSpec
from app.samples.models import Sample
from app.site.factory import create_app
from app.web.http import disconnect
from app.web.http.operations import OPERATION
from tests.fakes import RIGHT
from tests.integration.conftest import sqlite_when_thorough
from tests.thorough import thorough

pytestmark = [pytest.mark.slow, sqlite_when_thorough]

HELLO = {"role": "user", "content": "x"}
ID = "01900000-0000-7000-8000-000000000000"
HOSTILE_PARTS = (
    "%00",
    "a%00b",
    "%ED%A0%80",
    "%F0%9F",
    "%ff",
    "%20",
    "x" * 3000,
    "-1",
    "9" * 40,
    "%0d%0a",
    "..%2f..",
    "¾",
)
HOSTILE_TEXTS = (
    "\0",
    "a\0b",
    "\ud800",
    "a\udfffb",
    "\ud83d\ude00",
    "\x1b[31m",
    "\u202e",
    "x" * 5000,
    "",
    " ",
    "9" * 400,
)
ROW = {
    "task_id": "add/0",
    "prompt": "def add(a, b):\n",
    "entry_point": "add",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    "canonical_solution": RIGHT,
}
DEEP = ("[" * 1_000_000, '{"a":' * 600_000, "[" * 500_000 + "]" * 500_000, '{"prompt":' + "[" * 400_000)


@pytest.fixture
def app(ctx):
    ctx.settings = ctx.settings.model_copy(update={"rate_limit": ""})
    return create_app(ctx)


@pytest.fixture
def client(app):
    return app.test_client()


def fine(answer) -> None:
    status, text = answer.status_code, b"" if answer.is_streamed else answer.data[:300]
    answer.close()  # a stream of a completion that was accepted
    assert status < 500, (answer.request.method, answer.request.path[:80], status, text)


def addresses(app):
    """(rule, method, address with every part hostile)."""
    for rule in app.url_map.iter_rules():
        if rule.endpoint in ("static", "health.ready"):
            continue
        parts = HOSTILE_PARTS if re.search(r"<(path|int|string|\w+>)", rule.rule.replace("<uuid:", "")) else ("x",)
        for part in parts:
            path = re.sub(
                r"<(?:path:)?\w+>", part, re.sub(r"<int:\w+>", "9" * 30, re.sub(r"<uuid:\w+>", ID, rule.rule))
            )
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                yield rule, method, path


def test_no_part_of_an_address_makes_a_fault(app, client):
    for _, method, path in addresses(app):
        fine(client.open(path, method=method))


@pytest.mark.parametrize("part", ["9" * 400, thorough("%ED%A0%80")], ids=["digits", "a surrogate"])
def test_no_query_makes_a_fault(app, client, part):
    of_pages = ["before", "budget", "dataset", "like", "show", "sort", "state", "tab", "target", "task", "a", "b"]
    for rule in app.url_map.iter_rules():
        if "GET" not in rule.methods or rule.endpoint in ("static", "health.ready") or rule.rule.endswith("/events"):
            continue
        path = re.sub(r"<[^>]+>", ID, rule.rule)
        declared = getattr(app.view_functions[rule.endpoint], OPERATION, None)
        if declared is None and rule.rule.startswith(("/api/", "/v1/")):
            continue  # it takes none
        query = declared and declared.takes.get("query")
        names = of_pages if declared is None else list(query.model_fields) if query else []
        fine(client.get(f"{path}?a%00=b"))
        fine(client.get(f"{path}?{'&'.join(f'{name}=%00' for name in names)}"))
        for name in names:
            fine(client.get(f"{path}?{name}={part}"))


@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/complete", "/v1/completions", "/v1/chat/completions"])
def test_no_depth_of_json_makes_a_fault(client, path):
    for body in DEEP:
        answer = client.post(path, data=body, content_type="application/json")
        assert answer.status_code in (400, 422), answer.data[:200]


@pytest.mark.parametrize(
    ("path", "model", "base"),
    [
        ("/api/v1/runs", RunSpec, {"target": "smollm2-135m", "limit": 1}),
        thorough("/api/v1/complete", CompletionSpec, {"target": "smollm2-135m", "prompt": "x"}),
        thorough("/v1/completions", CompletionRequest, {"model": "smollm2-135m", "prompt": "x", "stream": True}),
        ("/v1/chat/completions", ChatRequest, {"model": "smollm2-135m", "messages": [HELLO], "stream": True}),
    ],
)
def test_no_value_of_a_json_field_makes_a_fault(client, monkeypatch, path, model, base):
    monkeypatch.setattr(waiting, "BEAT_S", 0.01)  # what is accepted waits for workers that are not there
    monkeypatch.setattr(
        disconnect, "build_disconnect_probe", lambda environ: lambda: True
    )  # and its client does not wait with it
    values = [*HOSTILE_TEXTS, ["\0"], ["\ud800"], 10**400, -1, 2**63, float("nan"), {}, [[]], None, True]
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
    for name in {*model.model_fields, "unknown\0", "\ud800"} - {"stream"}:  # without it a client waits for an answer
        for value in values:
            fine(client.post(path, data=json.dumps(base | {name: value}), headers=headers))


@pytest.mark.parametrize(
    ("path", "field"),
    [("/v1/completions", "prompt"), ("/v1/chat/completions", "messages")],
)
def test_no_nested_value_makes_a_fault(client, monkeypatch, path, field):
    monkeypatch.setattr(waiting, "BEAT_S", 0.01)
    monkeypatch.setattr(disconnect, "build_disconnect_probe", lambda environ: lambda: True)
    values = [*HOSTILE_TEXTS, 10**400, -1, 2**31, 2**63, 1.5, True, None, {}, [], [[]], {"type": "text"}]
    for value in values:
        for given in (
            [value],
            [[value]],
            [[1, value]],
            [{"role": value, "content": "x"}],
            [{"role": "user", "content": value}],
            [{"role": "user", "content": [value]}],
            [{"role": "user", "content": [{"type": "text", "text": value}]}],
            [HELLO | {"a": value}],
            [{"text": value}],
        ):
            fine(client.post(path, json={"model": "smollm2-135m", field: given}))


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/runs/new", RunSpec.model_fields),
        thorough("/complete", CompletionSpec.model_fields),
        thorough("/tokens", ["name", "scope"]),
        ("/login", ["name", "password", "next"]),
    ],
)
def test_no_form_makes_a_fault(client, path, names):
    word = re.search(r'name="csrf_token" value="([^"]+)"', client.get("/runs/new").get_data(as_text=True))[1]
    for name in names:
        for part in ("%00", "%ED%A0%80", "9" * 400):
            typed = f"csrf_token={word}&{name}={part}"
            fine(client.post(path, data=typed, content_type="application/x-www-form-urlencoded"))


@pytest.mark.parametrize("text", ["\ud800", thorough("a\udc00"), "\0"])
def test_a_dataset_with_such_a_text_is_refused_by_field(client, text):
    for name in [*ROW, "suffix", "stop"]:
        value = [text] if name == "stop" else ROW.get(name, "") + text
        for row in (ROW | {name: value}, {**ROW, "canonical_solution": "", "suffix": "\n", name: value}):
            file = (io.BytesIO(json.dumps(row).encode()), "mine.jsonl")
            answer = client.post("/api/v1/datasets", data={"file": file})
            assert answer.status_code == 422, (name, answer.data)
            assert re.search("|".join([*ROW, "suffix", "stop"]), answer.json["detail"])
    for content in DEEP:
        answer = client.post("/api/v1/datasets", data={"file": (io.BytesIO(content.encode()), "deep.jsonl")})
        assert answer.status_code == 422


def test_names_of_files_headers_and_tokens_are_no_way_in_either(ctx, client):
    for name in ("a\0b", "\ud800", "", "x" * 300, "\x1b[1m"):
        data = {"file": (io.BytesIO(json.dumps(ROW).encode()), "f.jsonl"), "name": name.encode("utf-8", "replace")}
        fine(client.post("/api/v1/datasets", data=data))
        with pytest.raises(BadInputError):
            create_token(ctx, name if name != "\x1b[1m" else "", Scope.READ)


def test_what_a_model_or_another_server_wrote_is_stored_with_a_stand_in(ctx, client):
    column = Sample.__table__.c.raw.type
    assert column.process_bind_param("a\ud800b\0\U0001f600", None) == "a\ufffd\ufe0eb\u2400\ufe0e\U0001f600"


def test_log_probabilities_of_any_token_are_stored_with_a_stand_in(ctx):
    asked = CompletionRequest(model="smollm2-135m", prompt=[97, 0], echo=True, logprobs=1, max_tokens=1)
    run_id = service.submit(ctx, asked)
    with ctx.database.read() as session:
        (waiting_task,) = load_tasks_with_logprobs(session, run_id)
    decode_task(ctx, waiting_task.id)
    with ctx.database.read() as session:
        (task,) = load_tasks_with_logprobs(session, run_id)
    assert task.prompt_sent == "a\u2400\ufe0e"
    assert task.prompt_logprobs == [["a", None, []], ["\u2400\ufe0e", -0.5, [["    ", -0.05]]]]
    assert task.samples[0].top_logprobs == [[["    ", -0.05]]] * 4
