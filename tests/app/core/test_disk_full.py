"""A disk without room: nothing false is said, and once there is room the work goes on."""

from __future__ import annotations

import threading

from sqlalchemy import event, text

from app.core.context import Context
from app.core.db.database import Database
from app.core.events.bus import MemoryBus
from app.core.settings import Settings
from app.core.states import DatasetKind, RunState
from app.datasets import service as datasets
from app.jobs.embedded import EmbeddedWorkers
from app.runs import service
from app.runs.repository import get_run, load_tasks_with_samples
from app.runs.schemas import RunSpec
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT, FakeEngine, FakeGrader
from tests.integration.waiting import wait_for

N_TASKS, N = 6, 4


def test_the_embedded_form_goes_on_when_its_full_disk_has_room_again(tmp_path):
    settings = Settings(_env_file=None, data_dir=tmp_path, lease_s=0.5, heartbeat_s=0.1, reap_interval_s=0.1)
    database, engine = Database(settings.effective_database_url), FakeEngine(hold=threading.Event())
    ctx = Context(settings, database, MemoryBus(), lambda config, on_progress: engine, FakeGrader)
    room: list[int] = []  # pages that the file may have, once it is limited

    @event.listens_for(database.engine, "checkout")
    def _limit(connection, *_):
        connection.execute(f"PRAGMA max_page_count={room[-1] if room else 2**30}")

    with EmbeddedWorkers(ctx, "test"):
        bulky = "# " + "x" * 3000 + "\n"
        tasks = tuple(Task(f"t/{i}", bulky + "def add(a, b):\n", "add", "check", RIGHT) for i in range(N_TASKS))
        datasets.store_dataset(ctx, Dataset("bulky", tasks, "d" * 64), DatasetKind.IMPORTED)
        run_id = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="bulky", n=N))
        assert engine.started.wait(60)  # nothing is stored before the disk is full
        with database.session() as session:
            room.append(session.execute(text("PRAGMA page_count")).scalar_one())
        engine.hold.set()
        wait_for(lambda: len(engine.requests) > 2)
        room.append(2**30)
        wait_for(lambda: state(ctx, run_id) not in (RunState.QUEUED, RunState.RUNNING))
    with database.read() as session:
        run, done = get_run(session, run_id), load_tasks_with_samples(session, run_id)
        assert run.state is RunState.FINISHED
        finished = [t for t in done if t.samples]
        assert all(len(t.samples) == N for t in finished)
        assert run.figures.samples == N * len(finished)
        assert all("disk is full" in t.error for t in done if not t.samples)
    database.dispose()


def state(ctx: Context, run_id) -> RunState:
    with ctx.database.read() as session:
        return get_run(session, run_id).state
