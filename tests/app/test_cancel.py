"""A cancelled run ends although the sandbox has much to grade, and nothing of it is lost."""

from __future__ import annotations

import itertools
import threading

import pytest

from app.jobs.embedded import Embedded
from app.runs import service, transitions
from app.runs.models import Run
from app.runs.repository import get_run, tasks_with_samples
from app.states import OPEN_RUN_STATES, RunState, TaskState
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
        return [task.state for task in tasks_with_samples(session, run_id)]


def run_state(ctx, run_id) -> RunState:
    with ctx.database.read() as session:
        return get_run(session, run_id).state


def test_grading_stops_between_two_programs(ctx, spec, grading):
    begun, _ = grading
    with Embedded(ctx, "test"):
        run_id = service.submit(ctx, spec())
        assert begun.wait(30)
        service.cancel(ctx, run_id)
        wait_for(lambda: run_state(ctx, run_id) is RunState.CANCELLED)
        assert set(states(ctx, run_id)) == {TaskState.CANCELLED}


def test_tasks_that_wait_behind_others_for_the_sandbox_are_cancelled_at_once_and_only_graded_later(
    ctx, spec, engine, grading
):
    begun, enough = grading
    with Embedded(ctx, "test"):
        first = service.submit(ctx, spec())
        assert begun.wait(30)
        second = service.submit(ctx, spec())
        wait_for(lambda: states(ctx, second) == [TaskState.DECODED] * 3)
        service.cancel(ctx, second)
        assert run_state(ctx, second) is RunState.CANCELLED
        assert run_state(ctx, first) is RunState.RUNNING
        with ctx.database.read() as session:
            assert [len(task.samples) for task in tasks_with_samples(session, second)] == [2, 2, 2]
        n_decoded = len(engine.requests)
        enough.set()
        wait_for(lambda: run_state(ctx, first) is RunState.FINISHED)
        service.resume(ctx, second)
        wait_for(lambda: run_state(ctx, second) not in OPEN_RUN_STATES)
        assert run_state(ctx, second) is RunState.FINISHED
        assert states(ctx, second) == [TaskState.FINISHED] * 3
        assert len(engine.requests) == n_decoded, "its samples were kept"


def test_a_task_that_is_decoded_as_its_run_is_cancelled_does_not_wait_for_the_sandbox(ctx, spec, engine, grading):
    begun, _ = grading
    decode = engine.generate

    def generate(request, on_update=None, should_cancel=None):
        done = decode(request)
        if cancelled.is_set():
            with ctx.database.read() as session:
                (run_id,) = [run.id for run in session.query(Run) if run.id != first and run.state is RunState.RUNNING]
            transitions.cancel(ctx, run_id)  # the heartbeat has no time to notice
        return done

    cancelled = threading.Event()
    engine.generate = generate
    with Embedded(ctx, "test"):
        first = service.submit(ctx, spec())
        assert begun.wait(30)
        wait_for(lambda: TaskState.QUEUED not in states(ctx, first) and TaskState.DECODING not in states(ctx, first))
        cancelled.set()
        second = service.submit(ctx, spec())
        wait_for(lambda: run_state(ctx, second) is RunState.CANCELLED)
        assert run_state(ctx, first) is RunState.RUNNING
