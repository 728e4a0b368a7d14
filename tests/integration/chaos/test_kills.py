"""Whatever is killed, stopped or away for a while: no sample is lost, none comes twice, and every run ends."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from sqlalchemy import select

from app.runs import reaper
from app.runs.models import Run
from app.runs.repository import get_run, tasks_with_samples
from app.states import OPEN_RUN_STATES, RunState, TaskState
from tests.integration.chaos.script import DEADLY_MODEL
from tests.integration.chaos.stack import N, Stack
from tests.integration.waiting import wait_for

OUTAGE_S = 5.0
LONG = "takes 1.5"
SHORT = "takes 0.2"


def test_a_killed_child_costs_an_attempt_and_nothing_else(stack: Stack):
    run_id = stack.submit(LONG, *[SHORT] * 6)
    wait_for(lambda: stack.working(run_id))
    os.kill(stack.child(stack.working(run_id)), signal.SIGKILL)
    stack.wait_for_end(run_id)
    stack.assert_whole(run_id)


def test_a_killed_worker_is_replaced_by_the_others_and_its_child_does_not_stay_behind(stack: Stack):
    run_id = stack.submit(LONG, *[SHORT] * 6)
    wait_for(lambda: stack.working(run_id))
    name = stack.working(run_id)
    child = stack.child(name)
    os.kill(stack.parts[name].pid, signal.SIGKILL)
    stack.wait_for_end(run_id)
    stack.assert_whole(run_id)
    stack.parts[name].wait(20)
    wait_for(lambda: not is_alive(child))


def test_a_stalled_worker_that_wakes_up_finds_its_job_gone_and_writes_nothing(stack: Stack):
    run_id = stack.submit("takes 2")
    wait_for(lambda: stack.working(run_id))
    name = stack.working(run_id)
    stack.signal(name, signal.SIGSTOP)
    stack.wait_for_end(run_id)
    stack.assert_whole(run_id)
    before = stored(stack, run_id)
    n_put_down = len(stack.events("put down"))
    stack.signal(name, signal.SIGCONT)
    wait_for(lambda: len(stack.events("put down")) > n_put_down)
    follow_up = stack.submit(*[SHORT] * 4)
    stack.wait_for_end(follow_up)
    stack.assert_whole(follow_up)
    assert stored(stack, run_id) == before


def test_a_redis_that_dies_and_forgets_everything_costs_no_decoding(stack: Stack):
    run_id = stack.submit(*["takes 0.5"] * 12)
    wait_for(lambda: stack.decoded(run_id) >= 2)
    stack.redis.kill()
    during = stack.submit(*[SHORT] * 3)  # accepted: the row is the job
    time.sleep(OUTAGE_S)
    stack.redis.start()
    stack.wait_for_end(run_id, during)
    stack.assert_whole(run_id)
    stack.assert_whole(during)
    assert set(stack.generated(run_id).values()) == {1}


def test_a_database_that_dies_for_longer_than_a_lease_loses_no_sample(stack: Stack):
    run_id = stack.submit(*["takes 0.5"] * 12)
    wait_for(lambda: stack.decoded(run_id) >= 2)
    stack.postgres.kill()
    time.sleep(OUTAGE_S)
    stack.postgres.start()
    stack.wait_for_end(run_id)
    stack.assert_whole(run_id)


def test_runs_that_a_killed_web_process_accepted_are_worked(stack: Stack):
    accepted: list[str] = []

    def submit(client: int) -> None:
        body = {"target": "smollm2-135m", "dataset": name, "n": N, "seed": client}
        while len(accepted) < 1000:
            try:
                accepted.append(stack.http("/api/v1/runs", body)["run"]["id"])
            except OSError:
                return

    name = stack.additions("takes 0.01")
    clients = [threading.Thread(target=submit, args=(i,)) for i in range(4)]
    for client in clients:
        client.start()
    wait_for(lambda: len(accepted) >= 10)
    stack.kill("web")
    for client in clients:
        client.join()
    with stack.ctx.database.read() as session:  # one more may be stored than the client heard of
        run_ids = session.scalars(select(Run.id).where(Run.name.contains("smollm2"), Run.dataset.has(name=name))).all()
    assert set(accepted) <= {str(run_id) for run_id in run_ids}
    stack.wait_for_end(*run_ids)
    for run_id in run_ids:
        stack.assert_whole(run_id)


@pytest.mark.slow
def test_a_task_or_a_model_that_kills_every_worker_is_given_up_and_the_run_says_so(stack: Stack):
    with_deadly_task = stack.submit(SHORT, "kills", SHORT)
    with_deadly_model = stack.submit(*[SHORT] * 5, target=DEADLY_MODEL)
    stack.wait_for_end(with_deadly_task, with_deadly_model, timeout_s=120)
    stack.assert_whole(with_deadly_task, failed=1)
    with stack.ctx.database.read() as session:
        assert reaper.WORKER_LOST in get_run(session, with_deadly_task).error
        run = get_run(session, with_deadly_model)
        assert (run.state, run.error) == (RunState.FAILED, reaper.LOADING_LOST)
        assert not any(t.samples for t in tasks_with_samples(session, with_deadly_model))
    assert sorted(stack.generated(with_deadly_task).values()) == [1, 1, 3]


def test_reapers_that_sweep_at_the_same_time_change_nothing(stack: Stack):
    run_id = stack.submit(LONG, *[SHORT] * 6)
    sweepers = [threading.Thread(target=sweep, args=(stack, run_id)) for _ in range(2)]
    wait_for(lambda: stack.working(run_id))
    stack.kill(stack.working(run_id))  # something to fight over
    for sweeper in sweepers:
        sweeper.start()
    stack.wait_for_end(run_id)
    for sweeper in sweepers:
        sweeper.join()
    stack.assert_whole(run_id)
    assert sum(stack.generated(run_id).values()) <= 8  # the one that was killed is decoded once more


def sweep(stack: Stack, run_id) -> None:
    while stack.state(run_id) in OPEN_RUN_STATES:
        reaper.reap(stack.ctx)


def stored(stack: Stack, run_id) -> list:
    with stack.ctx.database.read() as session:
        return [
            (t.state, t.worker, t.finished_at, [(s.id, s.raw) for s in t.samples])
            for t in tasks_with_samples(session, run_id)
            if t.state is TaskState.FINISHED
        ]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
