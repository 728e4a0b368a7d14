"""When an engine is calibrated: before a run's first task here, after each minute of its decoding, and at its end."""

from __future__ import annotations

from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.core.broker.broker import MemoryBroker
from app.core.states import OPEN_RUN_STATES, RunState
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.work import calibrate, decode_job
from app.runs import hidden_runs, service
from app.runs.models import Calibration
from app.runs.repository import get_run
from tests.app.stub_server import serve_stub
from tests.integration.waiting import wait_for


def worked(ctx, run_id):
    def ended():
        with ctx.database.read() as session:
            return get_run(session, run_id).state not in OPEN_RUN_STATES

    wait_for(ended)
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        assert run.state is RunState.FINISHED
        return run, list(run.calibrations)


def test_a_run_is_calibrated_before_its_first_task_and_after_its_last(ctx, spec, engine):
    order = []
    decode, measure = engine.generate, engine.calibrate
    engine.generate = lambda *request: order.append("task") or decode(*request)
    engine.calibrate = lambda: order.append("calibrate") or measure()
    with EmbeddedWorkers(ctx, "test"):
        run, found = worked(ctx, service.submit(ctx, spec()))
    assert order == ["calibrate", "task", "task", "task", "calibrate"]
    assert [c.verify_s for c in found] == [0.02, 0.02]
    assert {c.worker for c in found} == {ctx.worker_name}
    assert run.figures.clock_drift == 0.0


def test_a_long_run_is_calibrated_again_and_again(ctx, spec, engine, monkeypatch):
    monkeypatch.setattr(calibrate, "EVERY_S", 0.3)  # a task takes 0.2 s by the clock of the fake
    with EmbeddedWorkers(ctx, "test"):
        _, found = worked(ctx, service.submit(ctx, spec(limit=3)))
    assert len(found) == 3  # before the first and the third task, and after the last


def test_another_process_calibrates_for_itself(ctx, spec, engine):
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec())
        worked(ctx, run_id)
        with ctx.database.session() as session:
            for row in session.query(Calibration):
                row.worker = "elsewhere:1"
        second = service.submit(ctx, spec())
        _, found = worked(ctx, second)
    assert len(found) == 2


def test_a_completion_waits_for_no_calibration(ctx, engine):
    with EmbeddedWorkers(ctx, "test"):
        run_id = completions.submit(ctx, CompletionSpec(target="smollm2-135m", prompt="def f():", n=1))
        worked(ctx, run_id)
    assert engine.calibrations == 0


def test_a_device_without_room_for_it_decodes_all_the_same(ctx, spec, engine):
    def no_memory():
        raise RuntimeError("CUDA out of memory")

    engine.calibrate = no_memory
    with EmbeddedWorkers(ctx, "test"):
        run, found = worked(ctx, service.submit(ctx, spec()))
    assert (found, run.figures.clock_drift, run.figures.tasks) == ([], None, 3)


def test_a_remote_engine_has_neither_calibrations_nor_readings(ctx, spec, engine):
    engine.calibrate = lambda: None
    with serve_stub(lambda reply, _: None) as stub, EmbeddedWorkers(ctx, "test", pinned_only=True):
        run_id = service.submit(ctx, spec(target=f"openai:m@{stub.url}"), pinned_worker=ctx.worker_name)
        run, found = worked(ctx, run_id)
    assert found == []
    assert (run.figures.tasks_disturbed, run.figures.clock_marks) == (None, None)


def test_a_deleted_run_takes_its_calibrations_along(ctx, spec):
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec())
        worked(ctx, run_id)
    ctx.broker = MemoryBroker()
    ctx.stopping.clear()  # as a process that goes on
    hidden_runs.delete_run(ctx, run_id)
    with ctx.database.read() as session:
        assert session.query(Calibration).count() == 0


def test_a_run_that_its_time_limit_ends_is_calibrated_after_its_last_task(ctx, spec, engine, monkeypatch):
    monkeypatch.setattr(calibrate, "is_out_of_time", lambda run: len(engine.requests) == 2)
    monkeypatch.setattr(decode_job, "is_out_of_time", lambda run: len(engine.requests) == 2)
    with EmbeddedWorkers(ctx, "test"):
        run, found = worked(ctx, service.submit(ctx, spec()))
    assert (run.figures.tasks, len(found)) == (2, 2)


def test_a_throughput_run_is_calibrated_before_its_batch(ctx, spec, engine):
    with EmbeddedWorkers(ctx, "test"):
        _, found = worked(ctx, service.submit(ctx, spec(throughput=True)))
    assert len(found) == 1
