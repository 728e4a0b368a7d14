"""A cancelled run ends although the sandbox has much to grade, and nothing of it is lost."""

from __future__ import annotations

import itertools
import threading
import uuid

import pytest
from sqlalchemy import select

from app.core.states import OPEN_RUN_STATES, RunState, TaskState
from app.jobs.embedded import EmbeddedWorkers
from app.runs import service, transitions
from app.runs.models import RunTask
from app.runs.repository import get_run, load_tasks_with_samples
from tests.fakes import FakeGrader
from tests.integration.waiting import wait_for


class EndlessGrader(FakeGrader):
    """Has always another program of a task to judge. The check of the dataset ends."""

    def __init__(self, begun: threading.Event, enough: threading.Event) -> None:
        self._begun, self._enough = begun, enough

    def judge_many(self, items, workers):
        judged = list(super().judge_many(items, workers))
        if len(items) >= 4:  # the canonical solutions
            yield from judged
            return
        for verdict in itertools.cycle(judged):
            yield verdict
            self._begun.set()
            if self._enough.wait(0.01):
                break
        yield from judged


@pytest.fixture
def grading(ctx):
    """(begun, enough) of a grader that is busy until `enough` is set."""
    begun, enough = threading.Event(), threading.Event()
    ctx.make_grader = lambda: EndlessGrader(begun, enough)
    yield begun, enough
    enough.set()


def states(ctx, run_id) -> list[TaskState]:
    with ctx.database.read() as session:
        return [task.state for task in load_tasks_with_samples(session, run_id)]


def run_state(ctx, run_id) -> RunState:
    with ctx.database.read() as session:
        return get_run(session, run_id).state


def test_grading_stops_between_two_programs(ctx, spec, grading):
    begun, _ = grading
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec())
        assert begun.wait(30)
        service.cancel(ctx, run_id)
        wait_for(lambda: run_state(ctx, run_id) is RunState.CANCELLED)
        assert set(states(ctx, run_id)) == {TaskState.CANCELLED}


def prepared(ctx, spec, engine) -> list[uuid.UUID]:
    """Two runs that are ready to be decoded, once `engine.hold` is set: the sandbox prepares runs as well."""
    engine.hold = threading.Event()
    runs = [service.submit(ctx, spec()) for _ in range(2)]
    wait_for(lambda: all(run_state(ctx, run_id) is RunState.RUNNING for run_id in runs))
    return runs


def test_tasks_that_wait_for_the_sandbox_are_cancelled_at_once_and_only_graded_later(ctx, spec, engine, grading):
    begun, enough = grading
    with EmbeddedWorkers(ctx, "test"):
        runs = prepared(ctx, spec, engine)
        engine.hold.set()
        assert begun.wait(30)
        (graded,) = [run_id for run_id in runs if TaskState.GRADING in states(ctx, run_id)]
        (waiting,) = set(runs) - {graded}
        wait_for(lambda: states(ctx, waiting) == [TaskState.DECODED] * 3)
        service.cancel(ctx, waiting)
        assert run_state(ctx, waiting) is RunState.CANCELLED
        assert run_state(ctx, graded) is RunState.RUNNING
        with ctx.database.read() as session:
            assert [len(task.samples) for task in load_tasks_with_samples(session, waiting)] == [2, 2, 2]
        n_decoded = len(engine.requests)
        enough.set()
        wait_for(lambda: run_state(ctx, graded) is RunState.FINISHED)
        service.resume(ctx, waiting)
        wait_for(lambda: run_state(ctx, waiting) not in OPEN_RUN_STATES)
        assert states(ctx, waiting) == [TaskState.FINISHED] * 3
        assert len(engine.requests) == n_decoded, "its samples were kept"


def test_a_task_that_is_decoded_as_its_run_is_cancelled_does_not_wait_for_the_sandbox(ctx, spec, engine, grading):
    begun, _ = grading
    decode, cancelled = engine.generate, []

    def generate(request, on_update=None, should_cancel=None):
        done = decode(request)
        if len(engine.requests) > 1 and not cancelled:
            assert begun.wait(30)
            with ctx.database.read() as session:
                (run_id,) = session.scalars(select(RunTask.run_id).where(RunTask.state == TaskState.DECODING))
            if TaskState.GRADING not in states(ctx, run_id):
                transitions.cancel(ctx, run_id)  # the heartbeat has no time to notice
                cancelled.append(run_id)
        return done

    engine.generate = generate
    with EmbeddedWorkers(ctx, "test"):
        prepared(ctx, spec, engine)
        engine.hold.set()
        wait_for(lambda: cancelled and run_state(ctx, cancelled[0]) is RunState.CANCELLED)
        assert set(states(ctx, cancelled[0])) == {TaskState.CANCELLED}
