"""What others take of the machine is read against a real busy loop, and reaches the task's row and the run's mark."""

from __future__ import annotations

import time

import pytest

from app.core.states import OPEN_RUN_STATES
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.work import machine_use
from app.runs import clock, service
from app.runs.repository import get_run, load_tasks_with_samples
from tests.busy_loops import BusyLoops, busy_loops
from tests.integration.waiting import wait_for

TICK_S = 0.02  # by which the system's counters may lag, on each CPU


def wait_until_they_burn(loops: BusyLoops, seconds: float) -> None:
    until = loops.burnt() + seconds
    wait_for(lambda: loops.burnt() >= until, 60)


def test_a_busy_loop_counts_as_others():
    with busy_loops() as loops:
        before = machine_use.read_cpu_counters()
        wait_until_they_burn(loops, 0.5)
        use = machine_use.compute_use_since(before)
    assert use.others_cpu_s >= 0.5 - TICK_S * loops.n_cpus  # others of this machine may add to it
    assert use.others_cpu_s + use.steal_s <= use.capacity_s * 1.05 + TICK_S * loops.n_cpus


def test_our_own_work_does_not_count_as_others(monkeypatch):
    def reading(at_s: float, busy_s: float, own_s: float) -> machine_use.CpuCounters:
        return machine_use.CpuCounters(at_s, 2, busy_s, 0.0, own_s)

    monkeypatch.setattr(machine_use, "read_cpu_counters", lambda own_s: reading(10.0, 15.0, 14.5))
    use = machine_use.compute_use_since(reading(0.0, 0.0, 0.0))
    assert (use.others_cpu_s, use.capacity_s) == (0.5, 20.0)


def test_our_own_threads_are_what_the_process_used():
    before = machine_use.read_cpu_counters()
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert machine_use.read_cpu_counters().own_s - before.own_s >= 0.2


def test_counters_that_cannot_be_read_give_nothing(monkeypatch):
    before = machine_use.read_cpu_counters()
    monkeypatch.setattr(machine_use.psutil, "cpu_times", lambda percpu: (_ for _ in ()).throw(PermissionError()))
    assert machine_use.read_cpu_counters() is None
    assert machine_use.compute_use_since(before) is None
    assert machine_use.compute_use_since(None) is None


@pytest.mark.slow
def test_a_run_decoded_beside_a_busy_loop_gets_its_mark(ctx, spec, engine):
    with busy_loops() as loops:
        decode = engine.generate

        def slowly(*request):
            wait_until_they_burn(loops, 0.3)
            return decode(*request)

        engine.generate = slowly
        with EmbeddedWorkers(ctx, "test"):
            run_id = service.submit(ctx, spec())
            wait_for(lambda: state_of(ctx, run_id) not in OPEN_RUN_STATES, 120)
    with ctx.database.read() as session:
        run, tasks = get_run(session, run_id), load_tasks_with_samples(session, run_id)
        assert all(task.others_cpu_s >= 0.3 - TICK_S * loops.n_cpus for task in tasks)
        assert all(clock.compute_lost_share(task) > clock.MAX_LOST_SHARE for task in tasks)
        assert run.figures.tasks_disturbed == len(tasks) == 3
        (mark,) = run.figures.clock_marks
        assert mark.startswith("In 3 of 3 tasks ")


def state_of(ctx, run_id):
    with ctx.database.read() as session:
        return get_run(session, run_id).state
