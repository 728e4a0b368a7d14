"""Completions go to workers that declare their model, and nothing waits for a worker that is gone."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections import defaultdict, deque

import pytest
from sqlalchemy import select, update

from app.completions import routing
from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.core.broker import queues
from app.core.broker.model_queues import DEVICE_CLASSES, ModelQueue
from app.core.context import Context
from app.core.db.types import utcnow
from app.core.states import Step, TaskState
from app.jobs import reaper
from app.jobs.next_job import interactive_waits
from app.jobs.work.decode import decode_task
from app.runs import policy
from app.runs.evaluations import EvaluationPolicy
from app.runs.models import Run, RunTask
from app.workers import declared, service
from app.workers.models import Worker
from decoding.config import DEVICES
from tests.fakes import RecordingBroker
from tests.integration.conftest import sqlite_when_thorough

pytestmark = sqlite_when_thorough

A, B = "smollm2-135m", "qwen2.5-coder-0.5b"
CPU_A, CPU_B, CUDA_A = ModelQueue("cpu", A), ModelQueue("cpu", B), ModelQueue("cuda", A)


class SharedBroker(RecordingBroker):
    """As Redis is: it has any queue, and other processes get its messages."""

    shared = True

    def __init__(self) -> None:
        super().__init__()
        self._queues = defaultdict(deque, self._queues)

    def waiting(self) -> dict[str, list[uuid.UUID]]:
        """The rows that messages name, by queue."""
        return {name: [row_id for _, row_id in sent] for name, sent in self._queues.items() if sent}


@pytest.fixture(autouse=True)
def broker(ctx) -> SharedBroker:
    ctx.broker = SharedBroker()
    return ctx.broker


@pytest.fixture
def start(ctx):
    """Starts a worker that declares these queues of models; it does what the test calls."""

    def run(name: str, *of_models: ModelQueue) -> Context:
        worker = dataclasses.replace(ctx, worker_name=name, declared=of_models)
        worker.broker, worker.engines = ctx.broker, ctx.engines
        service.register(worker, f"{name}@host", [*(queue.name for queue in of_models), *queues.GPU])
        return worker

    return run


def silence(ctx: Context, name: str) -> None:
    """As if the worker had died long enough ago."""
    with ctx.database.session() as session:
        session.get_one(Worker, name).last_seen_at -= declared.silence_limit(ctx) + dt.timedelta(seconds=1)


def complete(ctx: Context, model: str, device: str = "auto") -> uuid.UUID:
    """The only job of a new completion."""
    run_id = completions.submit(ctx, CompletionSpec(target=model, prompt="def add(a, b):\n", n=2, device=device))
    with ctx.database.read() as session:
        return session.scalars(select(RunTask.id).where(RunTask.run_id == run_id)).one()


def state(ctx: Context, job: uuid.UUID) -> TaskState:
    with ctx.database.read() as session:
        return session.get_one(RunTask, job).state


def served(ctx: Context, worker: Context) -> set[uuid.UUID]:
    """The jobs that a worker finds by looking for waiting completions."""
    with ctx.database.read() as session:
        waiting = routing.is_waiting_here(worker, session)
        return set(session.scalars(select(RunTask.id).join(RunTask.run).where(waiting)))


def test_a_completion_goes_to_the_queue_of_its_model_and_any_other_to_all_workers(ctx, broker, start):
    start("a", CPU_A)
    ours, other = complete(ctx, A), complete(ctx, B)
    assert broker.waiting() == {CPU_A.name: [ours], queues.GPU_INTERACTIVE: [other]}


def test_a_gpu_goes_before_a_cpu_unless_the_completion_asks_for_the_cpu(ctx, broker, start):
    start("a", CPU_A)
    start("b", CUDA_A)
    auto, cuda, cpu = (complete(ctx, A, device) for device in DEVICES if device in ("auto", "cuda", "cpu"))
    by_queue = {row_id: name for name, ids in broker.waiting().items() for row_id in ids}
    with ctx.database.read() as session:
        found = {
            device: by_queue[job]
            for device, job in session.execute(select(Run.device, RunTask.id).join(Run.tasks)).all()
        }
    assert set(by_queue) == {auto, cuda, cpu}
    assert found == {"auto": CUDA_A.name, "cuda": CUDA_A.name, "cpu": CPU_A.name}


@pytest.mark.parametrize("gone", ["silent", "asked to stop"])
def test_a_worker_that_is_gone_declares_nothing(ctx, broker, start, gone):
    start("a", CPU_A)
    if gone == "silent":
        silence(ctx, "a")
    else:
        service.report_stop_request(ctx, "a@host")
    job = complete(ctx, A)
    assert broker.waiting() == {queues.GPU_INTERACTIVE: [job]}


def test_batches_stay_in_their_queue(ctx, broker, start):
    start("a", CPU_A)
    job = uuid.uuid4()
    EvaluationPolicy().send(ctx, uuid.uuid4(), Step.DECODE, [job])
    assert broker.waiting() == {queues.GPU_BATCH: [job]}


@pytest.mark.parametrize("live", [(), (CPU_A,), (CPU_A, CPU_B), (CPU_A, CUDA_A), (CUDA_A, CPU_B)])
def test_every_completion_waits_in_exactly_one_queue_the_one_its_message_goes_to(ctx, live):
    jobs = {(model, device): complete(ctx, model, device) for model in (A, B) for device in DEVICES}
    every = [queues.GPU_INTERACTIVE, *(ModelQueue(device, model).name for device in DEVICE_CLASSES for model in (A, B))]
    with ctx.database.read() as session:
        found = {
            queue: set(session.scalars(select(RunTask.id).join(RunTask.run).where(policy.waits_in(queue, live))))
            for queue in every
        }
    for (model, device), job in jobs.items():
        assert [queue for queue in every if job in found[queue]] == [routing.queue_of(model, device, live)]


def test_a_worker_serves_its_models_and_those_that_nobody_declares(ctx, start):
    a, b, any_worker = start("a", CPU_A), start("b", CPU_B), start("c")
    of_a, of_b, of_none = complete(ctx, A), complete(ctx, B), complete(ctx, "qwen2.5-coder-1.5b")
    on_gpu = complete(ctx, A, "cuda")  # worker a has no GPU, so nobody declares it
    assert served(ctx, a) == {of_a, of_none, on_gpu}
    assert served(ctx, b) == {of_b, of_none, on_gpu}
    assert served(ctx, any_worker) == {of_none, on_gpu}
    silence(ctx, "a")
    assert served(ctx, b) == {of_a, of_b, of_none, on_gpu}


def test_a_worker_whose_own_heartbeat_is_late_still_serves_its_models(ctx, start):
    a = start("a", CPU_A)
    start("other", CPU_A)
    silence(ctx, "a")
    job = complete(ctx, A)
    assert served(ctx, a) == {job}


def test_of_two_workers_with_one_model_each_may_serve_it(ctx, start):
    cpu, cuda = start("a", CPU_A), start("b", CUDA_A)
    job = complete(ctx, A)
    assert served(ctx, cpu) == served(ctx, cuda) == {job}


def test_a_batch_gives_way_only_to_completions_that_its_worker_may_serve(ctx, start):
    a, b = start("a", CPU_A), start("b", CPU_B)
    complete(ctx, A)
    assert interactive_waits(a, Run(pinned_worker=None))
    assert not interactive_waits(b, Run(pinned_worker=None))


def test_a_message_that_comes_to_the_wrong_worker_is_sent_on_and_not_worked(ctx, broker, start):
    job = complete(ctx, A)  # before any worker declares the model
    a, b = start("a", CPU_A), start("b", CPU_B)
    broker.drain()
    decode_task(b, job)
    assert state(ctx, job) is TaskState.QUEUED
    assert broker.waiting() == {CPU_A.name: [job]}
    decode_task(a, job)
    assert state(ctx, job) is TaskState.FINISHED
    decode_task(b, job)  # a late message
    assert broker.waiting() == {CPU_A.name: [job]}


def test_what_waits_for_a_lost_worker_is_sent_to_the_others_though_messages_wait_there(ctx, broker, start):
    start("a", CPU_A)
    start("b", CPU_B)
    jobs = [complete(ctx, A) for _ in range(3)]
    before = complete(ctx, "qwen2.5-coder-1.5b")
    for _ in range(2):
        reaper.reap(ctx)
    assert broker.waiting() == {CPU_A.name: jobs, queues.GPU_INTERACTIVE: [before]}
    silence(ctx, "a")
    for _ in range(2):
        reaper.reap(ctx)
    assert broker.waiting() == {queues.GPU_INTERACTIVE: [before, *jobs]}


def test_what_waits_for_a_lost_worker_goes_to_another_that_declares_the_model(ctx, broker, start):
    start("a", CPU_A)
    job = complete(ctx, A)
    start("b", CUDA_A)
    silence(ctx, "a")
    reaper.reap(ctx)
    assert broker.waiting() == {CUDA_A.name: [job]}


def test_a_message_that_was_lost_is_sent_again_to_the_queue_of_its_model(ctx, broker, start):
    start("a", CPU_A)
    job = complete(ctx, A)
    broker.purge(CPU_A.name)
    reaper.reap(ctx)
    assert broker.waiting() == {}  # it may be on its way
    with ctx.database.session() as session:
        session.execute(update(RunTask).values(enqueued_at=utcnow() - declared.silence_limit(ctx) * 2))
    reaper.reap(ctx)
    assert broker.waiting() == {CPU_A.name: [job]}


def test_a_process_that_shares_no_broker_serves_every_completion_itself(ctx, start):
    start("a", CPU_A)
    alone = dataclasses.replace(ctx)  # with queues in memory, as `bassline complete` on a machine of the stack
    job = complete(alone, A)
    assert alone.broker.queue_length(queues.GPU_INTERACTIVE) == 1
    assert served(ctx, alone) == {job}
