"""Targets of other servers: same budget and grading, timed at this side; our own server is the other side here."""

from __future__ import annotations

import threading
import time

import pytest

from app.background.leases import MAX_ATTEMPTS
from app.core import ports
from app.core.errors import BadInputError
from app.core.remote.engine import RemoteEngine
from app.core.remote.target import KEY_VARIABLE, RemoteTarget, parse_target, require_allowed_endpoint
from app.core.states import Failure, RunState
from app.jobs.work import grade, prepare
from app.jobs.work.decode import decode_task
from app.runs import service
from app.runs.repository import get_run, load_tasks_with_samples
from app.runs.schemas import RunSpec
from app.web.http.schemas import parse_spec
from decoding.models.errors import ModelError
from decoding.request import Request, RequestError
from tests.app.openai_service import MODEL, served_service
from tests.app.stub_server import DONE, choice, event, serve_stub
from tests.fakes import RIGHT, WRONG, FakeEngine

SECRET = "sk-very-secret"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with served_service(tmp_path_factory.mktemp("remote")) as found:
        yield found


@pytest.fixture
def far_engine(served) -> FakeEngine:
    """The engine on the other side, as if new."""
    found = served[0].load_engine(None, None)
    found.__init__()
    return found


@pytest.fixture
def target(served) -> RemoteTarget:
    return RemoteTarget(MODEL, str(served[1].base_url).rstrip("/"))


def test_samples_come_with_texts_logprobs_and_this_sides_times(far_engine, target):
    updates = []
    done = RemoteEngine.load(target).generate(
        Request("def add(a, b):\n", n=2, seed=3, budget_s=20, max_new_tokens=9, stop=("\n\n",)), updates.extend
    )
    assert [(s.text, s.finish_reason, s.n_tokens) for s in done.samples] == [(RIGHT, "stop", 4), (WRONG, "stop", 4)]
    assert done.samples[1].mean_logprob == pytest.approx(-0.2)
    assert all(0 < s.first_token_s <= s.finished_s <= done.wall_s for s in done.samples)
    assert done.n_prompt_tokens == len("def add(a, b):\n")
    assert updates[-1].finish_reason == "stop"
    *_probes, heard = far_engine.requests
    assert (heard.prompt, heard.n, heard.seed, heard.max_new_tokens, heard.stop) == (
        "def add(a, b):\n", 2, 3, 9, ("\n\n",),
    )  # fmt: skip


def test_a_server_that_is_late_is_left_at_the_deadline_with_what_it_said():
    def answer(reply, _):
        reply.start().write(event(choice("ret")), event(choice("x", "stop", 1)))
        reply.wait_for_hang_up()

    with serve_stub(answer) as stub:
        done = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", n=2, budget_s=0.5))
    assert 0.5 <= done.wall_s < 15  # a busy machine's; the server would take 60
    assert [(s.text, s.finish_reason) for s in done.samples] == [("ret", "deadline"), ("x", "stop")]
    assert [s.n_tokens for s in done.samples] == [1, 1]


def test_cancelling_hangs_up_within_a_moment(far_engine, target):
    far_engine.hold = threading.Event()
    cancelled = threading.Event()
    threading.Timer(0.3, cancelled.set).start()
    started = time.monotonic()
    done = RemoteEngine(target).generate(Request("p", budget_s=30), None, cancelled.is_set)
    assert time.monotonic() - started < 15  # a busy machine's; the budget is 30
    assert [s.finish_reason for s in done.samples] == ["cancelled"]


def test_waiting_for_a_busy_server_is_on_the_clock_and_recorded_apart():
    def answer(reply, _):
        if len(stub.bodies) == 1:
            reply.start(503, {"Retry-After": "0.3", "Content-Length": "0"})
        else:
            reply.start().write(event(choice("ok", "stop")), DONE)

    with serve_stub(answer) as stub:
        done = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", budget_s=60))
        assert len(stub.bodies) == 2
    assert done.samples[0].text == "ok"
    assert 0.3 <= done.waited_s <= done.samples[0].finished_s
    assert done.wall_s == pytest.approx(done.samples[0].finished_s - done.waited_s)


def test_the_key_is_sent_and_never_told(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    with serve_stub(lambda reply, _: reply.refuse(f"bad key {SECRET}")) as stub:
        engine = RemoteEngine(RemoteTarget("m", stub.url))
        with pytest.raises(RequestError) as refused:
            engine.generate(Request("p", budget_s=10))
        assert stub.headers[0]["Authorization"] == f"Bearer {SECRET}"
    assert SECRET not in f"{refused.value} {engine.get_provenance()}"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (lambda engine: engine.decode((1, 2)), "prompt holds token ids: a remote target takes plain prompts"),
        (lambda engine: engine.generate(Request("p", top_logprobs=1)), "logprobs asks for more than the chosen tokens"),
        (lambda engine: engine.generate(Request("p", prompt_logprobs=0)), "logprobs asks for more"),
    ],
)
def test_what_only_an_own_engine_can_do_is_refused(asked, why):
    with pytest.raises(RequestError, match=why):
        asked(RemoteEngine(RemoteTarget("m", "http://127.0.0.1:1/v1")))


def test_an_endpoint_that_is_not_there_is_said_before_anything_is_decoded():
    with pytest.raises(ModelError, match="cannot be reached"):
        RemoteEngine.load(RemoteTarget("m", "http://127.0.0.1:9/v1"))


def test_a_model_that_the_endpoint_does_not_have_is_said_before_anything_is_decoded(target):
    with pytest.raises(ModelError, match=r"refuses: .*no-such-model"):
        RemoteEngine.load(RemoteTarget("no-such-model", target.base_url))


def test_a_run_is_decoded_there_and_graded_here(ctx, spec, target, far_engine):
    ctx.load_engine = ports.load_engine
    chosen = spec(target=f"openai:{target.model}@{target.base_url}")
    run_id = service.submit(ctx, chosen, pinned_worker=ctx.worker_name)
    prepare.prepare_run(ctx, run_id)
    with ctx.database.read() as session:
        jobs = [t.id for t in load_tasks_with_samples(session, run_id)]
    for job_id in jobs:
        decode_task(ctx, job_id)
        grade.grade_task(ctx, job_id)
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        assert (run.state, run.error) == (RunState.FINISHED, None)
        assert (run.figures.pass_first, run.figures.pass_at_1, run.figures.tokens) == (1.0, 0.5, 24)
        assert run.figures.mean_acceptance_length == 2.0  # by the server's own counts
        assert (run.drafter, run.provenance["device"], run.provenance["timed"]) == ("none", "remote", "at the client")
        assert run.provenance["endpoint"] == target.base_url
        assert run.provenance["n_requests"] == "one request for all samples of a task"
        assert (run.provenance["server"], run.provenance["server_dialects"]) == ("Bassline", "completions")


def test_a_run_whose_server_is_gone_fails_once_with_the_reason_and_can_be_resumed(ctx, spec):
    ctx.load_engine = ports.load_engine

    def answer(reply, body):
        reply.start().write(*(event(choice(RIGHT, "stop", i)) for i in range(body.get("n", 1))), DONE)

    with serve_stub(answer, pages={"/v1/models": {"data": []}}) as stub:
        run_id = service.submit(ctx, spec(target=f"openai:m@{stub.url}"), pinned_worker=ctx.worker_name)
        prepare.prepare_run(ctx, run_id)
        with ctx.database.read() as session:
            jobs = [t.id for t in load_tasks_with_samples(session, run_id)]
        decode_task(ctx, jobs[0])
    for _ in range(MAX_ATTEMPTS):
        decode_task(ctx, jobs[1])
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        assert (run.state, run.failure) == (RunState.FAILED, Failure.MODEL)
        assert "cannot be reached: " in run.error
        assert [task.state for task in run.tasks] == ["decoded", "queued", "queued"]


def test_a_submitted_run_may_name_only_endpoints_that_the_operator_listed(ctx, spec):
    with pytest.raises(BadInputError, match="BASSLINE_REMOTE_ENDPOINTS"):
        service.submit(ctx, spec(target="openai:m@http://10.0.0.1/v1"))
    require_allowed_endpoint("openai:m@http://10.0.0.1/v1", "http://a/v1 http://10.0.0.1/v1/")


@pytest.mark.parametrize("target", ["openai:m", "openai:@http://a/v1", "openai:m@ftp://a", "openai:m@http://key@a/v1"])
def test_a_target_that_is_no_address_is_refused(target):
    with pytest.raises(BadInputError):
        parse_target(target)


def test_the_model_may_have_slashes_and_the_drafter_is_the_others_business():
    assert parse_target("openai:org/model-7b@https://a.example/v1/") == RemoteTarget(
        "org/model-7b", "https://a.example/v1"
    )
    remote = {"target": "openai:m@http://127.0.0.1:9/v1"}
    assert parse_spec(RunSpec, remote).drafter == "none"
    with pytest.raises(BadInputError, match="leave it out"):
        parse_spec(RunSpec, {**remote, "drafter": "ngram"})
