"""Every event carries exactly the fields that are declared for its type, whatever happened; no end goes untold."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import select, update

from app.background.leases import MAX_ATTEMPTS
from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.core.db.types import get_utc_time
from app.core.events import event_types
from app.core.events.bus import MemoryBus
from app.core.states import TaskState, WorkStep
from app.jobs import claims, reaper
from app.jobs.reaper import DECODING_LOST
from app.jobs.work import grade, prepare
from app.jobs.work.decode import decode_task
from app.runs import service, transitions
from app.runs.event_stream import follow_events
from app.runs.models import RunTask
from tests.fakes import FakeGrader


class CheckedBus(MemoryBus):
    """Holds every event against the declaration, and keeps it."""

    def __init__(self):
        super().__init__()
        self.told: list[tuple[str, dict]] = []

    def publish(self, run_id, event_type, data):
        self.told.append((event_type, dict(data)))
        return super().publish(run_id, event_type, data)

    def check(self) -> set[str]:
        for kind, data in self.told:
            assert tuple(data) == event_types.PAYLOADS[kind], kind
            for sample in data.get("samples", ()):
                assert sorted(sample) == sorted(event_types.TEXT_DELTA_SAMPLE)
        return {kind for kind, _ in self.told}

    def of_tasks(self, state: TaskState) -> list[dict]:
        return [data for kind, data in self.told if kind == event_types.TASK and data["state"] == state]


@pytest.fixture(autouse=True)
def bus(ctx) -> CheckedBus:
    ctx.bus = CheckedBus()
    return ctx.bus


@pytest.fixture
def prepared(ctx, spec):
    def make(**changes):
        run_id = service.submit(ctx, spec(**changes))
        prepare.prepare_run(ctx, run_id)
        return run_id

    return make


def jobs(ctx, run_id):
    with ctx.database.read() as session:
        return list(session.scalars(select(RunTask.id).where(RunTask.run_id == run_id).order_by(RunTask.position)))


@pytest.mark.parametrize("throughput", [False, True])
def test_a_run_tells_each_step_of_each_task_with_its_place(ctx, bus, prepared, throughput):
    load = ctx.load_engine

    def telling(config, on_progress):
        on_progress("loading it")
        return load(config, on_progress)

    ctx.load_engine = telling
    run_id = prepared(throughput=throughput)
    for job in jobs(ctx, run_id):
        decode_task(ctx, job)
        grade.grade_task(ctx, job)
    assert bus.check() == set(event_types.PAYLOADS) - {event_types.TEXT, event_types.TEXT_DELTA}
    for state in (TaskState.DECODING, TaskState.DECODED, TaskState.GRADING, TaskState.FINISHED):
        found = sorted((data["position"], data["task_id"], data["error"]) for data in bus.of_tasks(state))
        assert found == [(0, "add/0", None), (1, "add/1", None), (2, "add/2", None)]
    assert [e.type for e in follow_events(ctx, run_id, beat_s=0.01) if e][-1] == event_types.STATE


def test_a_completion_tells_its_texts(ctx, bus):
    run_id = completions.submit(ctx, CompletionSpec(target="smollm2-135m", prompt="def add(a, b):\n", n=2))
    decode_task(ctx, jobs(ctx, run_id)[0])
    assert event_types.TEXT_DELTA in bus.check()
    (whole,) = [
        event.data for event in follow_events(ctx, run_id, beat_s=0.01) if event and event.type == event_types.TEXT
    ]
    assert tuple(whole) == event_types.PAYLOADS[event_types.TEXT]
    assert [sorted(sample) for sample in whole["samples"]] == [sorted(event_types.TEXT_SAMPLE)] * 2


def test_a_task_that_fails_at_its_last_attempt_to_decode_says_so_with_the_reason(ctx, bus, prepared, engine):
    def broken(request, *args):
        raise OSError("the device is gone")

    run_id = prepared()
    engine.generate = broken
    first = jobs(ctx, run_id)[0]
    for _ in range(MAX_ATTEMPTS):
        decode_task(ctx, first)
    bus.check()
    assert len(bus.of_tasks(TaskState.QUEUED)) == MAX_ATTEMPTS - 1
    (failed,) = bus.of_tasks(TaskState.FAILED)
    assert (failed["task_id"], failed["position"]) == ("add/0", 0)
    assert "the device is gone" in failed["error"]


def test_a_task_that_fails_at_its_last_attempt_to_be_graded_says_so_with_the_reason(ctx, bus, prepared):
    class Broken(FakeGrader):
        def judge_many(self, items, workers):
            raise OSError("no room in /tmp")

    run_id = prepared()
    ctx.make_grader = Broken
    second = jobs(ctx, run_id)[1]
    decode_task(ctx, second)
    for _ in range(MAX_ATTEMPTS):
        grade.grade_task(ctx, second)
    bus.check()
    (failed,) = bus.of_tasks(TaskState.FAILED)
    assert (failed["task_id"], failed["position"]) == ("add/1", 1)
    assert "no room in /tmp" in failed["error"]


def test_what_the_reaper_does_to_a_task_is_told(ctx, bus, prepared):
    run_id = prepared()
    decode_task(ctx, jobs(ctx, run_id)[0])
    last = jobs(ctx, run_id)[2]
    for _ in range(MAX_ATTEMPTS):
        assert claims.claim_job(ctx, last, WorkStep.DECODE)
        with ctx.database.session() as session:
            session.execute(
                update(RunTask).where(RunTask.id == last).values(lease_until=get_utc_time() - dt.timedelta(seconds=1))
            )
        reaper.reap(ctx)
    bus.check()
    assert [(d["position"], d["error"]) for d in bus.of_tasks(TaskState.FAILED)] == [(2, DECODING_LOST)]
    assert [d["position"] for d in bus.of_tasks(TaskState.QUEUED)] == [2] * (MAX_ATTEMPTS - 1)


def test_the_states_of_a_run_are_told_with_their_reason(ctx, bus, prepared):
    run_id = prepared()
    transitions.interrupt(ctx, run_id, "stopped")
    service.resume(ctx, run_id)
    prepare.prepare_run(ctx, run_id)
    service.cancel(ctx, run_id)
    bus.check()
    told = [(data["state"], data["error"]) for kind, data in bus.told if kind == event_types.STATE]
    assert told == [
        ("running", None), ("interrupted", "stopped"), ("queued", None), ("running", None), ("cancelled", None)
    ]  # fmt: skip
