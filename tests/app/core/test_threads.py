"""Connections per thread, and threads that no fault ends."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.core.db.database import Database
from app.core.db.threads import RepeatingThread
from app.runs import service
from app.runs.models import Run
from app.workers.models import Worker
from app.workers.service import make_heartbeat_thread
from tests.integration.waiting import wait_for


@pytest.fixture
def taken(ctx):
    """Every connection of the process is taken, as by that many slow requests."""
    small = Database(ctx.database.url, connections=1)
    ctx.database.dispose()
    ctx.database = small
    with small.connect():
        yield
    small.dispose()


def count_connections(database) -> list[int]:
    """How many connections this thread held at each checkout."""
    held, seen = [0], []

    @event.listens_for(database.engine, "checkout")
    def take(*_):
        held[0] += 1
        seen.append(held[0])

    @event.listens_for(database.engine, "checkin")
    def give(*_):
        held[0] -= 1

    return seen


def test_a_session_takes_the_connection_of_the_readers_of_its_thread(ctx, spec):
    run_id = service.submit(ctx, spec())
    seen = count_connections(ctx.database)
    reader = ctx.database.open_reader()
    run = reader.get_one(Run, run_id)
    with ctx.database.session() as session:
        session.get_one(Run, run_id).name = "renamed"
    with ctx.database.read() as inner:
        assert inner.scalar(select(Run.name)) == "renamed"
    assert run.tasks[0].position == 0  # what was read can still be used, and its rest is read with another connection
    with ctx.database.connect():
        pass
    reader.close()
    assert len(seen) == 5
    assert max(seen) == 1


def test_many_threads_that_read_and_then_write_all_get_a_connection(ctx, spec):
    """Each needs two sessions; with a connection for each session they would wait for each other."""
    run_id = service.submit(ctx, spec())
    small = Database(ctx.database.url, connections=2)
    both_read = threading.Barrier(2)
    ended = []

    def look_and_rename(name: str) -> None:
        reader = small.open_reader()
        reader.get_one(Run, run_id)
        both_read.wait(20)
        with small.session() as session:
            session.get_one(Run, run_id).note = name
        reader.close()
        ended.append(name)

    threads = [threading.Thread(target=look_and_rename, args=(str(i),)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    small.dispose()
    assert len(ended) == 2


@pytest.mark.usefixtures("taken")
def test_a_worker_reports_itself_while_every_connection_is_taken(ctx):
    beat = make_heartbeat_thread(ctx)
    beat.start()

    def has_reported() -> bool:
        with ctx.database.heartbeats.read() as session:
            return session.get(Worker, ctx.worker_name) is not None

    wait_for(has_reported)
    beat.stop()


@pytest.mark.parametrize("fault", [PoolTimeout("no connection is free"), RuntimeError("a fault"), MemoryError()])
def test_no_fault_ends_the_heartbeat_of_a_worker(ctx, monkeypatch, fault):
    ctx.settings = ctx.settings.model_copy(update={"heartbeat_s": 0.01})
    tried = []

    def fail(_ctx) -> None:
        tried.append(1)
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr("app.workers.service.report", fail)
        beat = make_heartbeat_thread(ctx)
        beat.start()
        wait_for(lambda: len(tried) > 2)
    wait_for(lambda: not ctx.stopping.is_set() and beat.is_alive())
    beat.stop()
    assert not beat.is_alive()


def test_a_repeating_thread_goes_on_although_the_log_cannot_be_written(monkeypatch):
    def fail(*_, **__) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.core.db.threads.log_failure", fail)
    calls = []

    def act() -> float | None:
        calls.append(1)
        if len(calls) < 3:
            raise OSError(28, "No space left on device")
        return None

    thread = RepeatingThread("test", act, retry_s=0.01)
    thread.start()
    wait_for(lambda: len(calls) == 3 and not thread.is_alive())
