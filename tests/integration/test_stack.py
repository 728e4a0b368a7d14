"""The stack's parts together: PostgreSQL, Redis, a real worker process and sandbox, gunicorn, event streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest
import redis

from app.completions.policy import CompletionPolicy
from app.core.broker import queues
from app.core.context import Context
from app.core.db.database import Database
from app.core.events.bus import BEFORE_FIRST, MemoryBus, RedisBus
from app.core.settings import Settings
from app.core.states import DatasetKind, RunState, TaskState, WorkStep
from app.datasets import service as datasets
from app.jobs.work.decode import decode_task
from app.runs import service
from app.runs.policy import EvaluationPolicy
from app.runs.repository import get_run, load_tasks_with_samples
from app.runs.schemas import RunSpec
from app.site.factory import create_app
from app.workers.service import list_workers, report
from evaluation.datasets import Dataset, Task
from evaluation.sandbox import Sandbox, SandboxUnavailableError
from tests.fakes import RIGHT, FakeEngine
from tests.integration.conftest import delete_rows
from tests.integration.servers import free_port
from tests.integration.waiting import wait_for
from tests.thorough import thorough

pytestmark = pytest.mark.slow


@pytest.fixture(params=["memory", "redis"])
def bus(request):
    return MemoryBus() if request.param == "memory" else RedisBus(request.getfixturevalue("redis_url"))


def test_a_reader_gets_every_event_from_any_point_on(bus):
    run_id = uuid.uuid4()
    for i in range(5):
        bus.publish(run_id, "sample", {"index": i})
    events = bus.read(run_id, BEFORE_FIRST, 0)
    assert [e.data["index"] for e in events] == [0, 1, 2, 3, 4]
    assert [e.data["index"] for e in bus.read(run_id, events[2].id, 0)] == [3, 4]
    assert bus.read(run_id, events[-1].id, 0.05) == []
    assert bus.read(uuid.uuid4(), BEFORE_FIRST, 0) == []


def test_a_waiting_reader_wakes_when_something_happens(bus):
    run_id = uuid.uuid4()
    threading.Timer(0.1, bus.publish, (run_id, "state", {"state": "running"})).start()
    assert [e.type for e in bus.read(run_id, BEFORE_FIRST, 10)] == ["state"]


def test_a_redis_that_is_away_fails_nobody(monkeypatch):
    monkeypatch.setattr("app.core.events.bus.SILENT_S", 0.01)
    away = RedisBus("redis://127.0.0.1:9/0")
    away.publish(uuid.uuid4(), "sample", {})
    assert away.read(uuid.uuid4(), BEFORE_FIRST, 5) == []


@pytest.fixture
def stack(migrated_postgres, redis_url, tmp_path):
    """(context of this process, environment for the others) over a database without rows and Redis as broker."""
    try:
        Sandbox.detect()
    except SandboxUnavailableError as error:
        pytest.skip(f"no sandbox here: {error}")
    delete_rows(migrated_postgres)
    settings = Settings(
        _env_file=None, data_dir=tmp_path, database_url=migrated_postgres, broker_url=redis_url, secret_key="test"
    )
    engine = FakeEngine()
    ctx = Context(
        settings, Database(settings.effective_database_url), RedisBus(redis_url), load_engine=lambda c, p: engine
    )
    environment = {
        **os.environ,
        "BASSLINE_DATABASE_URL": migrated_postgres,
        "BASSLINE_BROKER_URL": redis_url,
        "BASSLINE_SECRET_KEY": "test-secret",
        "BASSLINE_DATA_DIR": str(tmp_path),
        "BASSLINE_LOG_FORMAT": "json",
        "BASSLINE_LOG_LEVEL": "info",
    }
    yield ctx, environment
    ctx.database.dispose()


@pytest.fixture
def start(stack, tmp_path):
    """Starts `bassline ...` as a process of its own; all are ended with the test."""
    started: list[subprocess.Popen] = []

    def run(*words: str) -> subprocess.Popen:
        with (tmp_path / f"{words[0]}-{len(started)}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "app.cli", *words], env=stack[1], stdout=log, stderr=log, start_new_session=True
            )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.terminate()
    for process in started:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def submit(ctx) -> uuid.UUID:
    task = Task("add/0", "def add(a, b):\n", "add", "def check(candidate):\n    assert candidate(1, 2) == 3\n", RIGHT)
    datasets.store_dataset(ctx, Dataset("additions", (task,), "e" * 64), DatasetKind.IMPORTED)
    return service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2))


def logged(file: Path) -> list[dict]:
    """The lines of a log; fails on one that is not JSON."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_worker_process_prepares_and_grades_what_this_process_decodes(stack, start, tmp_path):
    ctx, _ = stack
    run_id = submit(ctx)
    start("worker", "--queues", ",".join(queues.SANDBOX), "--name", "exec")

    def state():
        with ctx.database.read() as session:
            return get_run(session, run_id).state

    wait_for(lambda: state() is RunState.RUNNING, 90)
    with ctx.database.read() as session:
        (job,) = load_tasks_with_samples(session, run_id)
        (worker,) = list_workers(session)
        assert worker.pid != os.getpid()
    # The worker asks for the decoding once the run's state is stored.
    wait_for(lambda: ctx.broker.count_messages(queues.GPU_BATCH) == 1, 20)
    decode_task(ctx, job.id)
    wait_for(lambda: state() is RunState.FINISHED, 60)
    with ctx.database.read() as session:
        (job,) = load_tasks_with_samples(session, run_id)
        assert job.state is TaskState.FINISHED
        assert [s.verdict for s in job.samples] == ["passed", "wrong_answer"]
    kinds = [e.type for e in ctx.bus.read(run_id, BEFORE_FIRST, 0)]
    assert kinds.count("graded") == 2
    assert kinds[-1] == "state"

    # The child logs in the same form as its parent, and its lines say which job they are about.
    def rows() -> set[str]:
        lines = logged(tmp_path / "worker-0.log")
        return {line["row"] for line in lines if line.get("job") == queues.GRADE_TASK}

    wait_for(lambda: rows() == {str(job.id)})
    faults = [line for line in logged(tmp_path / "worker-0.log") if line["level"] in ("error", "critical")]
    assert not faults, "nothing fails unseen while a process starts"


def test_gunicorn_serves_pages_and_readiness_and_stops_when_asked(stack, start, tmp_path):
    port = free_port()
    web = start("web", "--port", str(port), "--workers", "1", "--threads", "4")

    def checks() -> dict[str, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/health/ready", timeout=5) as answer:
                return json.load(answer)["checks"]
        except urllib.error.HTTPError as unready:
            return json.load(unready)["checks"]
        except OSError:
            return {}

    wait_for(lambda: checks().get("broker") == "ok", 60)
    assert checks()["workers"].startswith("none has reported itself")
    report(stack[0])
    wait_for(lambda: set(checks().values()) == {"ok"})  # an answer holds for a moment
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as page:
        assert page.status == 200
    web.terminate()
    assert web.wait(30) == 0
    lines = logged(tmp_path / "web-0.log")
    assert [line["path"] for line in lines if line["event"] == "request"] == ["/"]
    assert all("test-secret" not in str(line) for line in lines)


@pytest.mark.thorough
def test_readiness_names_a_sandbox_worker_that_cannot_start_and_comes_back_with_a_good_one(stack, start, tmp_path):
    ctx, environment = stack
    web = create_app(ctx).test_client()

    def workers() -> str:
        return web.get("/api/v1/health/ready").json["checks"]["workers"]

    start("worker", "--queues", ",".join(queues.GPU), "--name", "gpu0")
    # As in a container without /dev/shm: the process dies before its child can report anything.
    environment["PYTHONPATH"] = str(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(
        "import _multiprocessing\n"
        "class SemLock(_multiprocessing.SemLock):\n"
        "    def __new__(cls, *args): raise FileNotFoundError(2, 'No such file or directory')\n"
        "_multiprocessing.SemLock = SemLock\n"
    )
    bad = start("worker", "--queues", ",".join(queues.SANDBOX), "--name", "exec")
    assert bad.wait(60) != 0
    del environment["PYTHONPATH"]
    wait_for(lambda: "exec.interactive" in workers(), 60)
    assert web.get("/api/v1/health/ready").status_code == 503
    lines = logged(tmp_path / "worker-1.log")
    assert any("FileNotFoundError" in str(line) for line in lines)
    start("worker", "--queues", ",".join(queues.SANDBOX), "--name", "exec")
    wait_for(lambda: workers() == "ok", 90)


@pytest.mark.thorough
def test_readiness_names_a_worker_whose_processes_keep_dying(stack, start):
    ctx, _ = stack
    web = create_app(ctx).test_client()
    start("worker", "--queues", ",".join(queues.GPU), "--name", "gpu0")
    start("worker", "--queues", ",".join(queues.SANDBOX), "--name", "exec")
    killed: set[int] = set()

    def kill_another() -> bool:
        with ctx.database.read() as session:
            rows = [w for w in list_workers(session) if (w.node or "").startswith("exec@") and w.pid not in killed]
        for row in rows:
            os.kill(row.pid, signal.SIGKILL)
            killed.add(row.pid)
        return len(killed) >= 3

    def workers() -> str:
        return web.get("/api/v1/health/ready").json["checks"]["workers"]

    wait_for(kill_another, 180)
    wait_for(lambda: "exec@" in workers() and "keeps dying: 3 processes in a row" in workers(), 120)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("worker", "--queues", "exec", "--name", "exec"), marks=pytest.mark.thorough),
        ("beat",),
        pytest.param(("web", "--port", "0"), marks=pytest.mark.thorough),
    ],
)
def test_whatever_a_process_of_the_stack_writes_is_json_from_its_start_to_its_end(stack, start, tmp_path, words):
    process = start(*words)
    log = tmp_path / f"{words[0]}-0.log"
    begun = {"worker": "ready.", "beat": "beat: looks", "web": "Booting worker"}[words[0]]
    wait_for(lambda: begun in log.read_text(), 60)
    process.terminate()
    assert process.wait(60) == 0
    lines = logged(log)
    assert len(lines) > 1
    assert not [line for line in lines if line["event"].startswith("{")]  # no line inside another


@pytest.mark.parametrize(
    ("words", "code"),
    [thorough(("db", "upgrade"), 0), thorough(("worker", "--queues", "nowhere"), 2), (("web", "--host", "0.0.0.0"), 2)],
)
def test_a_command_that_ends_at_once_says_so_in_json_too(stack, start, tmp_path, words, code):
    assert start(*words).wait(60) == code
    lines = logged(tmp_path / f"{words[0]}-0.log")
    assert lines[-1]["level"] == ("error" if code else "info")
    assert lines[-1]["event"]


def test_the_messages_that_wait_in_a_queue_are_counted(stack):
    ctx, environment = stack
    redis.Redis.from_url(environment["BASSLINE_BROKER_URL"]).flushall()
    assert ctx.broker.count_messages(queues.GPU_BATCH) == 0
    EvaluationPolicy().send_messages(ctx, uuid.uuid4(), WorkStep.DECODE, [uuid.uuid4(), uuid.uuid4()])
    assert ctx.broker.count_messages(queues.GPU_BATCH) == 2
    assert ctx.broker.count_messages(queues.GPU_INTERACTIVE) == 0
    CompletionPolicy().send_messages(ctx, uuid.uuid4(), WorkStep.DECODE, [uuid.uuid4()])
    assert ctx.broker.count_messages(queues.GPU_INTERACTIVE) == 1
