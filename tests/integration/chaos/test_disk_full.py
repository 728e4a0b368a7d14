"""A database that has no room left: nothing false is said, and once there is room the work goes on."""

from __future__ import annotations

from sqlalchemy import event, text

from app.context import Context
from app.datasets import service as datasets
from app.db import Database
from app.embedded import Embedded
from app.events.bus import MemoryBus
from app.runs import service
from app.runs.repository import get_run, tasks_with_samples
from app.runs.schemas import RunSpec
from app.settings import Settings
from app.states import DatasetKind, RunState
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT, FakeEngine, FakeGrader
from tests.integration.chaos.stack import Stack
from tests.integration.waiting import wait_for

FULL = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON samples FOR EACH ROW EXECUTE FUNCTION no_room();
"""
N_TASKS, N = 6, 4


def test_samples_are_kept_until_postgresql_has_room_again(stack: Stack):
    fill(stack, FULL)
    try:
        run_id = stack.submit("takes 0", "takes 0")
        wait_for(lambda: len(stack.generated(run_id)) == 2)
    finally:
        fill(stack, "DROP TRIGGER no_room ON samples; DROP FUNCTION no_room()")
    stack.wait_for_end(run_id)
    stack.assert_whole(run_id)


def test_a_disk_that_stays_full_fails_the_run_with_the_databases_own_words(stack: Stack):
    fill(stack, FULL)
    try:
        run_id = stack.submit("takes 0", "takes 0")
        stack.wait_for_end(run_id)
    finally:
        fill(stack, "DROP TRIGGER no_room ON samples; DROP FUNCTION no_room()")
    with stack.ctx.database.read() as session:
        run = get_run(session, run_id)
        assert run.state is RunState.FAILED
        assert run.error.startswith("decoding failed: could not extend file: No space left on device")


def test_the_embedded_form_goes_on_when_its_full_disk_has_room_again(tmp_path):
    settings = Settings(_env_file=None, data_dir=tmp_path, lease_s=0.5, heartbeat_s=0.1, reap_interval_s=0.1)
    database, engine = Database(settings.database), FakeEngine()
    ctx = Context(settings, database, MemoryBus(), lambda config, on_progress: engine, FakeGrader)
    room: list[int] = []  # pages that the file may have, once it is limited

    @event.listens_for(database.engine, "checkout")
    def _limit(connection, *_):
        connection.execute(f"PRAGMA max_page_count={room[-1] if room else 2**30}")

    with Embedded(ctx, "test"):
        bulky = "# " + "x" * 3000 + "\n"
        tasks = tuple(Task(f"t/{i}", bulky + "def add(a, b):\n", "add", "check", RIGHT) for i in range(N_TASKS))
        datasets.store(ctx, Dataset("bulky", tasks, "d" * 64), DatasetKind.IMPORTED)
        run_id = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="bulky", n=N))
        with database.session() as session:
            room.append(session.execute(text("PRAGMA page_count")).scalar_one())
        wait_for(lambda: len(engine.requests) > 2)
        room.append(2**30)
        wait_for(lambda: state(ctx, run_id) not in (RunState.QUEUED, RunState.RUNNING))
    with database.read() as session:
        run, done = get_run(session, run_id), tasks_with_samples(session, run_id)
        assert run.state is RunState.FINISHED
        finished = [t for t in done if t.samples]
        assert all(len(t.samples) == N for t in finished)
        assert run.figures["samples"] == N * len(finished)
        assert all("disk is full" in t.error for t in done if not t.samples)
    database.dispose()


def fill(stack: Stack, statement: str) -> None:
    with stack.ctx.database.engine.begin() as connection:
        connection.execute(text(statement))


def state(ctx: Context, run_id) -> RunState:
    with ctx.database.read() as session:
        return get_run(session, run_id).state
