"""The whole stack as processes of this machine: servers, two GPU workers, a sandbox worker, beat and web."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections import Counter
from pathlib import Path

from sqlalchemy import select, update

from app.core.broker import queues
from app.core.broker.celery_app import configure
from app.core.context import Context
from app.core.db import migrate
from app.core.db.database import Database
from app.core.events.bus import RedisBus
from app.core.settings import Settings
from app.core.states import OPEN_RUN_STATES, DatasetKind, RunState, TaskState
from app.datasets import service as datasets
from app.runs import service
from app.runs.models import Run, RunTask
from app.runs.repository import get_run, load_tasks_with_samples
from app.runs.schemas import RunSpec
from app.workers.models import Worker
from app.workers.service import list_workers
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT
from tests.integration.chaos.script import LOG, expected_text
from tests.integration.servers import Postgres, Redis, free_port
from tests.integration.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
N = 2
GPU = ",".join(queues.GPU)
TIMES = {"lease_s": 3.0, "heartbeat_s": 0.5, "reap_interval_s": 0.5}


class Stack:
    """`ctx` is this process's view; `parts` are the others, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "chaos.log"
        self.log.touch()
        self.postgres, self.redis, self.port = Postgres(), Redis(), free_port()
        given = {"database_url": self.postgres.url, "broker_url": self.redis.url, "secret_key": "chaos", **TIMES}
        settings = Settings(_env_file=None, data_dir=folder, **given)
        self.ctx = Context(settings, Database(settings.effective_database_url), RedisBus(self.redis.url))
        migrate.upgrade(self.ctx.database)
        self.environment = {
            **os.environ,
            **{f"BASSLINE_{name.upper()}": str(value) for name, value in given.items()},
            "BASSLINE_DATA_DIR": str(folder),
            LOG: str(self.log),
        }
        self.words = {
            "gpu0": ("worker", "--queues", GPU, "--name", "gpu0"),
            "gpu1": ("worker", "--queues", GPU, "--name", "gpu1"),
            "exec": ("worker", "--queues", ",".join(queues.SANDBOX), "--name", "exec"),
            "beat": ("beat",),
            "web": ("web", "--port", str(self.port), "--workers", "1", "--threads", "24"),
        }
        self.parts: dict[str, subprocess.Popen] = {}

    def start(self, name: str, *, module: str = "tests.integration.chaos.program", words: tuple[str, ...] = ()) -> None:
        with (self.folder / f"{name}.log").open("a") as log:
            self.parts[name] = subprocess.Popen(
                [sys.executable, "-m", module, *(words or self.words[name])],
                env=self.environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def ensure(self) -> None:
        """Starts what is missing and waits until everything is ready. Messages of this process go to its Redis."""
        configure(self.ctx.settings)
        for name in self.words:
            if name not in self.parts or self.parts[name].poll() is not None:
                self.start(name)
        wait_for(self._workers_ready, 90)
        with self.ctx.database.session() as session:
            session.execute(update(Worker).values(crashes=0))  # the test before killed them; readiness would wait
        wait_for(self._web_ready, 90)

    def kill(self, name: str) -> None:
        """SIGKILL, to a part with all its processes."""
        os.killpg(self.parts[name].pid, signal.SIGKILL)
        self.parts[name].wait(20)

    def signal(self, name: str, number: int) -> None:
        os.killpg(self.parts[name].pid, number)

    def child(self, name: str) -> int | None:
        """The process of a worker part that does the work, once it has reported itself."""
        children = _children(self.parts[name].pid)
        with self.ctx.database.read() as session:
            return next((w.pid for w in list_workers(session) if w.pid in children), None)

    def working(self, run_id: uuid.UUID) -> str | None:
        """The part that decodes a task of the run now."""
        with self.ctx.database.read() as session:
            decoded = [t for t in load_tasks_with_samples(session, run_id) if t.state is TaskState.DECODING]
            names = {t.claimed_by for t in decoded if t.claimed_by}
        pids = {int(name.rpartition(":")[2]) for name in names}
        return next((name for name in ("gpu0", "gpu1") if pids & _children(self.parts[name].pid)), None)

    def events(self, what: str) -> list[dict]:
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [event for event in found if event["what"] == what]

    def submit(self, *scripts: str, target: str = "smollm2-135m", seed: int = 0) -> uuid.UUID:
        """A run with a task for each script; its prompts are its own."""
        name = self.additions(*scripts)
        return service.submit(self.ctx, RunSpec(target=target, dataset=name, n=N, seed=seed))

    def additions(self, *scripts: str) -> str:
        """A dataset with a task for each script."""
        name = uuid.uuid4().hex
        check = "def check(candidate):\n    assert candidate(1, 2) == 3\n"
        tasks = [
            Task(f"{name}/{i}", f"# {name} {i}\n# {script}\ndef add(a, b):\n", "add", check, RIGHT)
            for i, script in enumerate(scripts)
        ]
        datasets.store_dataset(self.ctx, Dataset(name, tuple(tasks), name * 2), DatasetKind.IMPORTED)
        return name

    def state(self, run_id: uuid.UUID) -> RunState:
        with self.ctx.database.read() as session:
            return get_run(session, run_id).state

    def decoded(self, run_id: uuid.UUID) -> int:
        """Tasks of the run with stored samples."""
        with self.ctx.database.read() as session:
            return sum(bool(t.samples) for t in load_tasks_with_samples(session, run_id))

    def generated(self, run_id: uuid.UUID) -> Counter[str]:
        """How often each task of the run was decoded."""
        with self.ctx.database.read() as session:
            names = {t.task.prompt: t.task.task_id for t in load_tasks_with_samples(session, run_id)}
        return Counter(names[e["prompt"]] for e in self.events("generate") if e["prompt"] in names)

    def wait_for_end(self, *run_ids: uuid.UUID, timeout_s: float = 60) -> None:
        some_open = select(Run.id).where(Run.id.in_(run_ids), Run.state.in_(OPEN_RUN_STATES)).limit(1)

        def ended() -> bool:
            with self.ctx.database.read() as session:
                return session.scalar(some_open) is None

        wait_for(ended, timeout_s)

    def assert_whole(self, run_id: uuid.UUID, failed: int = 0) -> None:
        """The run finished with exactly its own samples, each once and judged, but for `failed` tasks."""
        with self.ctx.database.read() as session:
            run, tasks = get_run(session, run_id), load_tasks_with_samples(session, run_id)
            assert run.state is RunState.FINISHED, run.error
            assert sum(t.state is TaskState.FAILED for t in tasks) == failed
            done = [t for t in tasks if t.state is not TaskState.FAILED]
            assert {t.state for t in done} <= {TaskState.FINISHED}
            assert all(t.lease_until is None and t.fence is None for t in tasks)
            for task in done:
                assert [s.raw for s in task.samples] == [expected_text(task.task.prompt, run.seed, i) for i in range(N)]
                assert [s.finish_reason for s in task.samples] == ["stop"] * N
                assert [s.verdict for s in task.samples] == ["passed", "wrong_answer"]
            assert (run.figures.tasks, run.figures.samples) == (len(done), N * len(done))

    def decoding(self) -> Counter[str]:
        """How many jobs each part decodes now."""
        with self.ctx.database.read() as session:
            workers = session.scalars(select(RunTask.claimed_by).where(RunTask.state == TaskState.DECODING)).all()
        by_pid = Counter(int(name.rpartition(":")[2]) for name in workers if name)
        return Counter({name: sum(by_pid[pid] for pid in _children(self.parts[name].pid)) for name in ("gpu0", "gpu1")})

    def http(self, path: str, body: dict | None = None) -> dict:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def remove(self) -> None:
        for part in self.parts.values():
            if part.poll() is None:
                os.killpg(part.pid, signal.SIGKILL)
            part.wait(20)
        self.ctx.database.dispose()
        self.postgres.remove()
        self.redis.remove()

    def _workers_ready(self) -> bool:
        return all(self.child(name) for name in self.words if self.words[name][0] == "worker" and name in self.parts)

    def _web_ready(self) -> bool:
        try:
            return self.http("/api/v1/health/ready")["status"] == "ready"
        except OSError:
            return False


def _children(pid: int) -> set[int]:
    try:
        return {int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return set()
