"""Decoding against the clock on a CPU and grading take turns in one process, so that neither disturbs the clock.

An interactive job takes no turn, because a user waits for it; throughput runs have no clock to be disturbed. On a GPU
both go on at once. Workers in separate processes do not see each other: there only the measurement tells
(machine_use.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.core.context import Context
from app.jobs.job import Job, WorkStoppedError
from app.jobs.next_job import is_interactive_run_waiting
from app.jobs.work.decode_job import DecodeJob

if TYPE_CHECKING:
    from app.core.ports import Engine

POLL_S = 0.25


class GaveWayError(WorkStoppedError):
    """A job that waited for its turn, or for a quiet machine, lets others go first; its message is sent again."""


@contextmanager
def hold_decoding_turn(ctx: Context, job: DecodeJob, engine: Engine) -> Iterator[None]:
    """No grading in this process while inside. Raises GaveWayError, or WorkStoppedError where the job stops."""
    is_on_cpu = engine.get_provenance().get("threads") is not None
    if job.run.throughput or job.claim.policy.interactive or not is_on_cpu:
        yield
        return
    while not ctx.cpu_lock.acquire(timeout=POLL_S):
        if job.lease.stop_reason is not None:
            raise WorkStoppedError
        if is_interactive_run_waiting(ctx, job.run):
            raise GaveWayError
    try:
        yield
    finally:
        ctx.cpu_lock.release()


@contextmanager
def hold_grading_turn(ctx: Context, job: Job) -> Iterator[None]:
    """No decoding against the clock on a CPU in this process while inside. Raises WorkStoppedError."""
    if job.claim.policy.interactive:
        yield
        return
    while not ctx.cpu_lock.acquire(timeout=POLL_S):
        if job.lease.stop_reason is not None:
            raise WorkStoppedError
    try:
        yield
    finally:
        ctx.cpu_lock.release()
