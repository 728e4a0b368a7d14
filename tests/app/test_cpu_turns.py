"""On a CPU, decoding against the clock and grading take turns; a completion never waits for grading."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from app.background.leases import StopReason
from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.core.states import OPEN_RUN_STATES, RunState
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.job import WorkStoppedError
from app.jobs.work.cpu_turns import hold_decoding_turn
from app.runs import service
from app.runs.repository import get_run
from tests.fakes import FakeGrader
from tests.integration.waiting import wait_for


class Activity:
    """Which of decoding and grading are going on, and whether they ever were at once."""

    def __init__(self) -> None:
        self.now: set[str] = set()
        self.together = False
        self._lock = threading.Lock()

    def __call__(self, name, work):
        def watched(*arguments):
            with self._lock:
                self.now.add(name)
                self.together |= len(self.now) > 1
            try:
                return work(*arguments)
            finally:
                with self._lock:
                    self.now.discard(name)

        return watched


def on_cpu(engine):
    engine.get_provenance = lambda: {"target_sha256": "0" * 64, "device": "a processor", "threads": 2}


def ended(ctx, run_id):
    def look():
        with ctx.database.read() as session:
            return get_run(session, run_id).state not in OPEN_RUN_STATES

    return look


class HeldGrader(FakeGrader):
    """Judges only once `let_go` is set; `begun` tells that it waits. The check of the dataset passes."""

    def __init__(self, begun, let_go):
        self._begun, self._let_go = begun, let_go

    def judge_many(self, items, workers):
        if len(items) < 4:  # the samples of a task
            self._begun.set()
            assert self._let_go.wait(30)
        return super().judge_many(items, workers)


@pytest.fixture
def held(ctx):
    """(begun, let_go) of the grader."""
    begun, let_go = threading.Event(), threading.Event()
    ctx.make_grader = lambda: HeldGrader(begun, let_go)
    yield begun, let_go
    let_go.set()


def test_decoding_and_grading_never_overlap_on_a_cpu(ctx, spec, engine):
    on_cpu(engine)
    activity, grader = Activity(), FakeGrader()
    engine.generate = activity("decode", engine.generate)
    grader.judge_many = activity("grade", lambda *items: list(FakeGrader().judge_many(*items)))
    with EmbeddedWorkers(ctx, "test"):
        first = service.submit(ctx, spec())
        wait_for(ended(ctx, first))  # prepared with another grader: checking a dataset takes no turn
        ctx.make_grader = lambda: grader
        runs = [service.submit(ctx, spec()) for _ in range(3)]
        for run_id in runs:
            wait_for(ended(ctx, run_id))
    assert not activity.together
    with ctx.database.read() as session:
        assert {get_run(session, run_id).state for run_id in runs} == {RunState.FINISHED}


def test_on_a_gpu_the_next_task_is_decoded_while_the_last_is_graded(ctx, spec, engine, held):
    begun, let_go = held
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec())
        assert begun.wait(30)
        wait_for(lambda: len(engine.requests) == 3)
        let_go.set()
        wait_for(ended(ctx, run_id))


def test_a_completion_does_not_wait_for_grading(ctx, spec, engine, held):
    begun, let_go = held
    on_cpu(engine)
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec())
        assert begun.wait(30)
        asked = completions.submit(ctx, CompletionSpec(target="smollm2-135m", prompt="def f():", n=1))
        wait_for(ended(ctx, asked))
        assert not let_go.is_set()
        with ctx.database.read() as session:
            assert get_run(session, run_id).state is RunState.RUNNING
        let_go.set()
        wait_for(ended(ctx, run_id))
    with ctx.database.read() as session:
        assert get_run(session, run_id).state is RunState.FINISHED
        assert [task.attempt for task in get_run(session, run_id).tasks] == [1, 1, 1]  # giving way costs no attempt


def test_a_cancelled_run_does_not_wait_for_its_turn(ctx, spec, engine, held):
    begun, let_go = held
    on_cpu(engine)
    with EmbeddedWorkers(ctx, "test"):
        first = service.submit(ctx, spec())
        assert begun.wait(30)
        second = service.submit(ctx, spec())
        service.cancel(ctx, second)
        wait_for(ended(ctx, second))
        let_go.set()
        wait_for(ended(ctx, first))


def test_a_job_that_stops_while_it_waits_for_its_turn_is_not_decoded_beside_grading(ctx, engine):
    on_cpu(engine)
    lease, policy = SimpleNamespace(stop_reason=StopReason.CANCELLED), SimpleNamespace(interactive=False)
    job = SimpleNamespace(run=SimpleNamespace(throughput=False), claim=SimpleNamespace(policy=policy), lease=lease)
    with ctx.cpu_lock, pytest.raises(WorkStoppedError), hold_decoding_turn(ctx, job, engine):
        pytest.fail("nothing is measured or decoded")


def test_a_process_that_stops_does_not_wait_for_grading_in_line(ctx, spec, engine):
    on_cpu(engine)
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec())
        wait_for(ended(ctx, run_id))
        ctx.cpu_lock.acquire()  # as a decoder does that takes long
        again = service.submit(ctx, spec())
        wait_for(lambda: not ctx.stopping.is_set())
    with ctx.database.read() as session:
        assert get_run(session, again).state in (RunState.QUEUED, RunState.RUNNING, RunState.INTERRUPTED)
    ctx.cpu_lock.release()
