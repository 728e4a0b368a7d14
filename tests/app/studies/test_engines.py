"""`bassline study engines`: servers, commands that start them, and our own engine as the arms of a study."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.core import ports
from app.core.errors import BadInputError
from app.core.remote.target import is_remote
from app.jobs.embedded import EmbeddedWorkers
from app.site.factory import create_app
from app.studies import engines
from app.studies.engines import ENGINE_PRESETS, OWN, build_arms, cross_engines
from app.studies.repository import get_study, list_studies
from tests.app.core.remote.test_servers import find_free_port
from tests.app.stub_server import DONE, StubServer, choice, event, serve_stub, tokens
from tests.fakes import FakeEngine
from tests.processes import list_own_processes

PROGRAM = f"{sys.executable} -m tests.app.stub_program {{port}}"
BODY = "    return a + b\n"


@pytest.fixture(autouse=True)
def _engines(ctx):
    """Other servers are asked; our own engine is a fake."""
    ctx.load_engine = lambda config, news: ports.load_engine(config, news) if is_remote(config.target) else FakeEngine()


@pytest.fixture
def stub() -> Iterator[StubServer]:
    """A server that runs already and solves the tasks."""

    def answer(reply, body):
        made = [event(choice(BODY, "stop", i, tokens(BODY))) for i in range(body.get("n", 1))]
        reply.start().write(*made, DONE)

    with serve_stub(answer, pages={"/v1/models": {"data": [{"id": "m"}]}}) as found:
        yield found


@pytest.fixture
def study(bassline, tmp_path, additions) -> Callable[..., Any]:
    """Runs the study of a file with these arms; returns click's result."""

    def run(*arms: dict[str, Any], more: tuple[str, ...] = ()):
        lines = ["[study]", f'dataset = "{additions}"', "budget_s = 20", 'name = "engines"']
        for arm in arms:
            lines += ["[[arms]]", *(f"{name} = {write(value)}" for name, value in {"n": 1, **arm}.items())]
        file = tmp_path / "engines.toml"
        file.write_text("\n".join(lines))
        return bassline("study", "engines", file, "--json", "-", *more)

    return run


def write(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {json.dumps(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)


def make_command(behaviour: str = "", **others: Any) -> dict[str, Any]:
    """An arm whose server the stub program is."""
    port = find_free_port()
    health = f"http://127.0.0.1:{port}/health"
    return {"command": f"{PROGRAM} {behaviour}", "health": health, "port": port, "model": "m", **others}


def test_servers_commands_and_our_own_engine_take_turns_and_a_broken_arm_is_left_out(study, stub, ctx):
    broken = {"name": "broken", "command": "sh -c 'echo no GPU; exit 7'", "model": "m"}
    arms = (
        {"name": "running", "url": stub.url, "model": "m"},
        make_command(name="plain", speculation="none"),
        make_command("changes", name="drafting", speculation="ngram"),
        {"name": "ours", "engine": "bassline", "model": "smollm2-135m", "speculation": "sibling", "n": 2},
        broken,
    )
    result = study(*arms)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["study"]["state"], found["study"]["tasks_common"]) == ("finished", 3)
    assert [(arm["name"], arm["state"], arm["tasks"]) for arm in found["arms"]] == [
        ("running", "finished", 3), ("plain", "finished", 3), ("drafting", "finished", 3), ("ours", "finished", 3),
        ("broken", "failed", 0),
    ]  # fmt: skip
    assert "has ended with status 7; it said last: no GPU" in found["arms"][4]["error"]
    rows = {row["arm"]: row for row in found["engines"]}
    assert list(rows) == ["running", "plain", "drafting", "ours"]
    assert (rows["drafting"]["changed_share"], rows["drafting"]["changed_against"]) == (1.0, "plain")
    assert rows["plain"]["changed_share"] is rows["running"]["changed_share"] is None
    assert rows["plain"]["pass_first"] == 1.0
    assert "tests.app.stub_program" in rows["plain"]["start"]
    assert rows["running"]["start"] == stub.url
    assert rows["plain"]["first_token_s"] > 0
    assert list_own_processes("tests.app.stub_program") == []
    page = create_app(ctx).test_client().get(f"/studies/{found['study']['id']}").text
    assert "Engines" in page
    assert "tests.app.stub_program" in page
    stored = create_app(ctx).test_client().get(f"/api/v1/studies/{found['study']['id']}").json
    assert stored["engines"] == found["engines"]


def test_a_server_that_dies_costs_its_arm_and_resuming_finishes_it(study, stub, bassline):
    dying = make_command("dies", name="dying")
    running = {"name": "running", "url": stub.url, "model": "m"}
    found = json.loads(study(running, dying).stdout)
    assert [(arm["name"], arm["state"]) for arm in found["arms"]] == [("running", "finished"), ("dying", "failed")]
    assert "has ended with status 4; it said last:" in found["arms"][1]["error"]
    assert "out of memory: giving up" in found["arms"][1]["error"]
    assert (found["study"]["tasks_common"], found["study"]["arms_compared"]) == (3, ["running"])

    other = study(running, {**dying, "name": "other"}, more=("--resume", "engines"))
    assert (other.exit_code, "has other arms: give its own file and options" in other.output) == (2, True)
    result = study(running, {**dying, "command": PROGRAM}, more=("--resume", "engines"))
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [(arm["state"], arm["tasks"]) for arm in found["arms"]] == [("finished", 3), ("finished", 3)]
    assert list_own_processes("tests.app.stub_program") == []


def test_a_study_without_a_working_arm_fails_with_the_reasons(study):
    broken = {"command": "sh -c 'exit 7'", "model": "m"}
    result = study({**broken, "name": "a"}, {**broken, "name": "b", "command": "no-such-server"})
    assert result.exit_code == 1
    assert "status 7" in result.stderr
    assert "no-such-server: No such file" in result.stderr


def test_one_at_a_time_changes_places_after_several_tasks(study, ctx):
    arms = make_command(name="a"), make_command(name="b")
    found = json.loads(study(*arms, more=("--one-at-a-time",)).stdout)
    assert (found["study"]["state"], found["study"]["block_tasks"] > 1) == ("finished", True)


def test_secrets_of_servers_are_in_no_row_page_log_or_archive(study, stub, ctx, bassline, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("THEIR_TOKEN", "very-secret-env")
    tells = f"sh -c 'echo $TOKEN; exec {PROGRAM} plain' x --api-key very-secret-flag"
    arm = make_command(name="secret", env={"TOKEN": "$THEIR_TOKEN"})
    dying = make_command(name="ends", env={"TOKEN": "$THEIR_TOKEN"})
    result = study({**arm, "command": tells}, {**dying, "command": "sh -c 'echo $TOKEN; exit 1'"},
                   {"name": "running", "url": stub.url, "model": "m"})  # fmt: skip
    assert result.exit_code == 0, result.output
    study_id = json.loads(result.stdout)["study"]["id"]
    archive = tmp_path / "archive.json.gz"
    assert bassline("study", "export", study_id, "--format", "archive", "-o", archive).exit_code == 0
    client = create_app(ctx).test_client()
    told = [client.get(f"/studies/{study_id}?tab={tab}").text for tab in ("answer", "details", "arms")]
    told += [client.get(f"/api/v1/studies/{study_id}").text, client.get("/runs").text]
    stored = b"".join(file.read_bytes() for file in ctx.settings.data_dir.rglob("*") if file.is_file())

    told += [gzip.decompress(archive.read_bytes()).decode(), stored.decode("utf-8", "replace"), *capfd.readouterr()]
    everything = "\n".join([*told, result.stdout, result.stderr])
    assert "it said last: ***" in everything
    assert "very-secret" not in everything


@pytest.mark.parametrize("engine", [*ENGINE_PRESETS, OWN])
def test_a_preset_makes_a_command_for_each_speculation_that_it_has(engine, monkeypatch):
    monkeypatch.setattr(engines, "_locate_model", lambda reference, preset: f"/models/{reference}")
    kinds = ("none", "ngram", "suffix", "draft", "eagle3", "dflash", "mtp", "sibling", "trained")
    tables, left_out = cross_engines([engine], kinds, {"model": "smollm2-135m", "draft": "qwen2.5-coder-0.5b"})
    assert len(tables) + len(left_out) == len(kinds)
    found = build_arms(tables, {"n": 1})
    assert len({(arm.target, arm.drafter) for arm in found.arms}) == len(found.arms)
    for arm, server in zip(found.arms, found.servers, strict=False):
        assert (arm.target, arm.n) == (server.target, 1)
        words = server.command.words
        assert not [word for word in words if "{" in word and not word.startswith('{"')]
        assert any(word.endswith("smollm2-135m") for word in words)
        for word in words:
            if word.startswith("{"):
                json.loads(word)
    assert (len(found.servers) == 0) == (engine == OWN)


FAULTS = {
    "no kind": ({"model": "m"}, "engine, url, command: give one of them"),
    "two kinds": ({"model": "m", "url": "http://h/v1", "command": "x"}, "engine, url, command: give one of them"),
    "no model": ({"url": "http://h/v1"}, "model is missing: give the model as the server calls it"),
    "an unknown engine": ({"engine": "vlm", "model": "m"}, "engine"),
    "a speculation that the engine lacks": (
        {"engine": "llama.cpp", "model": "smollm2-135m", "speculation": "suffix"},
        "speculation is 'suffix': llama.cpp has none, ngram",
    ),
    "no draft": (
        {"engine": "vllm", "model": "smollm2-135m", "speculation": "eagle3"},
        "draft is missing: eagle3 needs",
    ),
    "no GGUF": ({"engine": "llama.cpp", "model": "hf:a/b"}, "needs a GGUF file, give its path"),
    "an unknown model": ({"engine": "vllm", "model": "smolm2"}, "smolm2"),
    "a wrong address": ({"url": "localhost:8000", "model": "m"}, "use openai:MODEL@http://HOST/v1"),
    "a wrong health": ({"command": "x", "model": "m", "health": "/health"}, "health is '/health': give a page such as"),
    "an open quotation": (
        {"command": "x 'y", "model": "m"},
        "command cannot be split into words: No closing quotation",
    ),
    "a variable that is not set": (
        {"command": "x", "model": "m", "env": {"A": "$NOT_SET_HERE"}},
        r"env.A names \$NOT_SET_HERE, which is not set: export",
    ),
    "a key of both": (
        {"target": "smollm2-135m", "url": "http://h/v1"},
        "url is for engine, url or command: leave it out",
    ),
    "a field that a run sets": ({"url": "http://h/v1", "model": "m", "extra_body": {"n": 3}}, "extra_body sets n"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_an_arm_is_one_sentence_that_names_it(fault):
    table, sentence = FAULTS[fault]
    with pytest.raises(BadInputError, match=rf"^arm 2: .*{sentence}") as refused:
        build_arms([{"target": "smollm2-135m"}, table], {})
    assert "\n" not in str(refused.value)
    assert str(refused.value.field).startswith("arms.1.")


def test_bad_input_ends_the_command_with_2_and_stores_nothing(study, stub, bassline, stored):
    good = {"name": "running", "url": stub.url, "model": "m"}
    for bad, sentence in (
        ({"url": "http://127.0.0.1:9/v1", "model": "m"}, "cannot be reached"),
        ({"url": stub.url.replace("http:", "https:"), "model": "m"}, "SSL: WRONG_VERSION_NUMBER"),
        ({"url": stub.url, "model": "m", "healt": "x"}, "is not a key: did you mean health"),
    ):
        result = study(good, bad)
        assert (result.exit_code, sentence in result.stderr) == (2, True), result.output
    for words, sentence in (
        (("--model", "smollm2-135m"), "--engine is missing: give --engine and --model, or FILE"),
        (("--engine", "vlm", "--model", "smollm2-135m"), "engine is 'vlm'"),
        (("--engine", "vllm", "--model", "smollm2-135m", "--speculation", "ngrams"), "speculation is 'ngrams'"),
    ):
        result = bassline("study", "engines", *words)
        assert (result.exit_code, sentence in result.stderr) == (2, True), result.output
    assert stored() == []


def test_a_server_that_has_the_database_starts_no_commands(study, ctx, bassline, monkeypatch):
    with EmbeddedWorkers(ctx, "serve"):
        result = study(make_command(name="a"), make_command(name="b"))
    ctx.stopping.clear()
    assert (result.exit_code, "it starts no other servers" in result.stderr) == (1, True), result.output


def test_tokens_are_counted_by_a_tokenizer_that_is_named(ctx, bassline, study, additions, monkeypatch):
    monkeypatch.setattr("app.core.remote.engine.load_token_counter", lambda model: lambda text: 100 + len(text))

    def answer(reply, body):
        reply.start().write(event(choice(BODY, "stop")), DONE)

    with serve_stub(answer, pages={"/v1/models": {"data": []}}) as first, serve_stub(answer) as second:
        arms = ({"name": str(i), "url": each.url, "model": "m"} for i, each in enumerate((first, second)))
        result = study(*arms, more=("--tokenizer", "smollm2-135m"))
        assert result.exit_code == 0, result.output
        assert not [body for body in first.bodies if "tokenizer" in body]
    with ctx.database.read() as session:
        (found,) = list_studies(session)
        run = get_study(session, found.id).runs[0]
        assert run.measured.tokens == 3 * (100 + len(BODY))
        assert run.provenance["tokenizer"] == "smollm2-135m"


def test_a_tokenizer_of_our_own_arm_leaves_the_server_before_it_as_it_is():
    url = "http://127.0.0.1:8999/v1"
    own = {"engine": OWN, "model": "openai:other@http://127.0.0.1:8998/v1", "speculation": "none"}
    made = build_arms([{"name": "a", "url": url, "model": "m"}, own], {}, tokenizer="smollm2-135m")
    assert [server.target for server in made.servers] == [made.arms[0].target]
