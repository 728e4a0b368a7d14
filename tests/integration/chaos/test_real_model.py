"""The GPU worker as it is: a real model in a child that is killed, and stays loaded otherwise."""

from __future__ import annotations

import os
import signal

import pytest

from app import queues
from app.datasets import service as datasets
from app.runs import service
from app.runs.repository import get_run, tasks_with_samples
from app.runs.schemas import RunSpec
from app.states import RunState
from app.workers.service import list_workers
from tests.integration.chaos.stack import Stack
from tests.integration.waiting import wait_for

MODEL = "smollm2-135m"


@pytest.mark.slow
@pytest.mark.model
def test_a_killed_child_with_a_real_model_leaves_the_samples_of_an_undisturbed_run(stack: Stack):
    for name in ("gpu0", "gpu1", "exec"):
        stack.kill(name)
    stack.start("real", module="app.cli", words=("worker", "--queues", ",".join(queues.ALL), "--name", "real"))
    try:
        disturbed = submit(stack)
        wait_for(lambda: stack.decoded(disturbed) >= 1, 120)
        child = stack.child("real")
        os.kill(child, signal.SIGKILL)
        undisturbed = submit(stack)
        stack.wait_for_end(disturbed, undisturbed, timeout_s=180)
        assert samples(stack, disturbed) == samples(stack, undisturbed)
        with stack.ctx.database.read() as session:
            (worker,) = [w for w in list_workers(session) if w.pid == stack.child("real")]
            assert worker.model == MODEL
    finally:
        stack.kill("real")
        del stack.parts["real"]


def submit(stack: Stack):
    datasets.require(stack.ctx, "humaneval")
    spec = RunSpec(
        target=MODEL, dataset="humaneval", limit=3, n=2, budget_s=60, max_tokens=32, temperature=0.8, drafter="none"
    )
    return service.submit(stack.ctx, spec)


def samples(stack: Stack, run_id) -> list:
    with stack.ctx.database.read() as session:
        run = get_run(session, run_id)
        assert run.state is RunState.FINISHED, run.error
        found = [
            (t.task.task_id, s.index, s.raw, s.finish_reason, s.verdict)
            for t in tasks_with_samples(session, run_id)
            for s in t.samples
        ]
    assert len(found) == run.n_tasks * run.n
    assert all(verdict for *_, verdict in found)
    return found
