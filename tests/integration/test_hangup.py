"""Clients that hang up on a completion, on both servers: the work ends, and the next client is answered."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest
from werkzeug.test import EnvironBuilder

from app.core.context import Context
from app.core.db import migrate
from app.core.db.database import Database
from app.core.events.bus import MemoryBus, RedisBus
from app.core.settings import Settings
from app.core.states import OPEN_RUN_STATES, RunKind, RunState
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.work.decode import decode_task
from app.runs.models import Run
from app.runs.repository import RunFilter, list_runs, load_tasks_with_samples
from app.site.factory import create_app
from app.web.http.waitress_server import WaitressServer
from tests.fakes import INFILL, RIGHT, FakeEngine
from tests.integration.servers import free_port
from tests.integration.waiting import wait_for
from tests.thorough import thorough

PATIENCE_S = 120  # everything here takes a second or two on an idle machine
OURS = ("/api/v1/complete", {"target": "smollm2-135m", "prompt": "def add(a, b):\n", "n": 2, "budget_s": 60})
OPENAIS = ("/v1/completions", {"model": "smollm2-135m", "prompt": "def add(a, b):\n", "n": 2, "budget": 60})
HELLO = {"role": "user", "content": "Write add."}
CHAT = ("/v1/chat/completions", {"model": "smollm2-135m", "messages": [HELLO], "n": 2, "budget": 60})
STREAM = {"Accept": "text/event-stream"}
MAX_STREAMS = 12  # fewer than share a batch: admission refuses no completion before costs are known
ASKED = {
    "json": (*OURS, {}),
    "stream": (*OURS, STREAM),
    "openai-json": (*OPENAIS, {}),
    "openai-stream": (OPENAIS[0], {**OPENAIS[1], "stream": True}, {}),
    "chat-json": (*CHAT, {}),
    "chat-stream": (CHAT[0], {**CHAT[1], "stream": True}, {}),
}


class Service:
    """A service on a port; `work` answers one waiting completion, as a worker would."""

    def __init__(self, ctx: Context, port: int, work: Callable[[], None]) -> None:
        self.ctx, self.port, self.work = ctx, port, work

    def ask(self, name: str) -> http.client.HTTPConnection:
        path, body, headers = ASKED[name]
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        client.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
        return client

    def runs(self) -> list[Run]:
        with self.ctx.database.read() as session:
            return list(list_runs(session, RunFilter(kinds=(RunKind.COMPLETION,))))


@pytest.fixture
def waitress(tmp_path: Path) -> Iterator[Service]:
    """The embedded form: its engine holds every prompt until it is told to go on or to stop."""
    engine = FakeEngine(hold=threading.Event())
    vars(engine).update(has_chat_template=True, infill_format=INFILL)
    settings = Settings(_env_file=None, data_dir=tmp_path, max_streams=MAX_STREAMS)
    ctx = Context(
        settings, Database(settings.effective_database_url), MemoryBus(), load_engine=lambda config, on_progress: engine
    )
    with EmbeddedWorkers(ctx, "test"):
        server = WaitressServer(create_app(ctx), "127.0.0.1", 0)

        def run() -> None:
            with contextlib.suppress(OSError):  # waitress knows no other end than a closed socket
                server.run()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield Service(ctx, server.effective_port, engine.hold.set)
        engine.hold.set()
        server.close()
        thread.join(10)
    ctx.database.dispose()


@pytest.fixture
def gunicorn(tmp_path: Path, redis_url: str) -> Iterator[Service]:
    """`bassline web` as a process of its own, without workers: this process decodes when it is told to."""
    engine = FakeEngine()
    settings = Settings(
        _env_file=None, data_dir=tmp_path, broker_url=redis_url, secret_key="test", max_streams=MAX_STREAMS
    )
    bus = RedisBus(redis_url)
    ctx = Context(
        settings, Database(settings.effective_database_url), bus, load_engine=lambda config, on_progress: engine
    )
    migrate.upgrade(ctx.database)
    port = free_port()
    environment = os.environ | {
        "BASSLINE_DATA_DIR": str(tmp_path),
        "BASSLINE_BROKER_URL": redis_url,
        "BASSLINE_SECRET_KEY": "test",
        "BASSLINE_MAX_STREAMS": str(MAX_STREAMS),
    }
    words = [sys.executable, "-m", "app.cli", "web", "--port", str(port), "--workers", "1"]
    with (tmp_path / "web.log").open("w") as log:
        process = subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def work() -> None:
        open_runs = [run for run in service.runs() if run.state in OPEN_RUN_STATES]
        with ctx.database.read() as session:
            jobs = [task.id for run in open_runs for task in load_tasks_with_samples(session, run.id)]
        for job in jobs:
            decode_task(ctx, job)

    service = Service(ctx, port, work)
    try:
        wait_for(answers, PATIENCE_S)
        yield service
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        ctx.database.dispose()


@pytest.mark.parametrize("server", ["waitress", thorough("gunicorn")])
def test_as_many_as_may_wait_hang_up_and_the_next_one_is_answered(request, server):
    service: Service = request.getfixturevalue(server)
    most = service.ctx.settings.max_streams
    clients = [service.ask(name) for name in islice(cycle(ASKED), most)]
    wait_for(lambda: len(service.runs()) == most, PATIENCE_S)
    for client in clients:
        client.close()
    wait_for(lambda: {run.state for run in service.runs()} == {RunState.CANCELLED}, PATIENCE_S)
    for ninth in ("json", "openai-json"):
        service_answers(service, ninth)


def service_answers(service: Service, name: str) -> None:
    before = {run.id for run in service.runs()}

    def states() -> set[RunState]:
        return {run.state for run in service.runs() if run.id not in before}

    def asked() -> bool:
        # A slot is given back a moment after its run has been cancelled.
        clients.append(service.ask(name))
        wait_for(lambda: states() or refused(clients[-1]), PATIENCE_S)
        return bool(states())

    clients: list[http.client.HTTPConnection] = []
    wait_for(asked, PATIENCE_S)
    # Its run is there a moment before its job can be claimed.
    wait_for(lambda: RunState.QUEUED not in states(), PATIENCE_S)
    service.work()
    answer = clients[-1].getresponse()
    document = json.load(answer)
    assert answer.status == 200
    texts = [c.get("text", c.get("raw")) for c in document.get("choices", document.get("samples"))]
    assert texts[0] == RIGHT


def refused(client: http.client.HTTPConnection) -> bool:
    """Whether an answer is there already, which can only be a refusal."""

    return bool(select.select([client.sock], [], [], 0)[0])


@pytest.mark.parametrize("name", ["stream", "openai-stream", "chat-stream"])
def test_a_client_that_leaves_before_the_first_byte_cancels_its_completion(tmp_path, name):
    settings = Settings(_env_file=None, data_dir=tmp_path)
    ctx = Context(settings, Database(settings.effective_database_url), MemoryBus())
    migrate.upgrade(ctx.database)
    path, body, headers = ASKED[name]
    environ = EnvironBuilder(path, method="POST", json=body, headers=headers).get_environ() | {
        "REMOTE_ADDR": "127.0.0.1"
    }
    answer = create_app(ctx).wsgi_app(environ, lambda status, headers, fault=None: lambda data: None)
    answer.close()  # what a server does that cannot write, without having asked for any byte
    with ctx.database.read() as session:
        (run,) = list_runs(session, RunFilter(kinds=(RunKind.COMPLETION,)))
    assert run.state is RunState.CANCELLED
    ctx.database.dispose()
