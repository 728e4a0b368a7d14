"""The decode step of several jobs of a run in one batch, for a run in throughput mode (docs/jobs.md)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import select

from app.broker import turns
from app.context import Context
from app.jobs.lease import Stop
from app.jobs.next_job import another_waits, interactive_waits
from app.jobs.work import calibrate
from app.jobs.work.decode_job import DecodeJob, claim_job, ready_engine
from app.jobs.work.open_jobs import OpenJobs
from app.runs.models import RunTask
from app.settings import MAX_BUDGET_S
from app.states import Step, TaskState
from decoding.request import Completion, Request

if TYPE_CHECKING:
    from app.ports import Engine

MIN_FILL_S = 30.0  # a batch takes jobs for this long even if one budget is as long as the longest


def decode_together(ctx: Context, first: DecodeJob) -> None:
    """Decodes `first`, and waiting jobs of its run as places in the engine's batch become free.

    Each is stored as soon as it is done. Nothing is added to the batch once the run stops, its time limit is over, an
    interactive job waits for this worker, another run waits and this one's turn is over, or the batch has lasted so
    long that one more budget would come near Celery's hard limit. Returns when the batch is empty; jobs that still wait
    have messages that name them.
    """
    batch = _Batch(ctx, first)
    try:
        engine = ready_engine(ctx, first.run)
        calibrate.before_task(ctx, first, engine)
        requests = batch.requests(engine)
        for position, outcome in engine.generate_many(requests, batch.jobs.update, lambda _: batch.should_cancel()):
            batch.end(position, outcome)
    except Exception as error:
        batch.jobs.end_all(error)
    finally:
        batch.jobs.close()


class _Batch:
    """The jobs of one run that are with the engine."""

    def __init__(self, ctx: Context, first: DecodeJob) -> None:
        self._ctx, self._first, self._run = ctx, first, first.run
        self.jobs = OpenJobs()
        self._stop: Stop | None = None
        self.jobs.enter(first)

    def requests(self, engine: Engine) -> Iterator[Request]:
        """A request for each job, which is claimed when the engine asks for it."""
        for job in self._jobs():
            try:
                request = job.start(engine)
            except Exception as error:
                self.jobs.end(job, error)
                continue
            self.jobs.sent.append(job)
            yield request

    def should_cancel(self) -> bool:
        """Whether the run has stopped, or every job in the batch has been lost."""
        stops = {job.lease.stop for job in self.jobs.jobs}
        for stop in (Stop.CANCELLED, Stop.INTERRUPTED):
            if stop in stops:
                # Kept, because the other leases notice it later.
                self._stop = stop
        return self._stop is not None or stops == {Stop.FENCED}

    def end(self, position: int, outcome: Completion | Exception) -> None:
        """Stores the samples of a request, or ends its job with the error."""
        self.jobs.end(self.jobs.sent[position], outcome, self._stop)

    def _jobs(self) -> Iterator[DecodeJob]:
        turn_ends = time.monotonic() + turns.TURN_S
        until = time.monotonic() + max(MAX_BUDGET_S - self._run.budget_s, MIN_FILL_S)
        yield self._first
        for run_task_id in self._waiting():
            if self._stop or self._ctx.stopping.is_set() or time.monotonic() >= until:
                return
            if interactive_waits(self._ctx, self._run):
                return
            if time.monotonic() >= turn_ends and self._another_run_waits():
                return
            job = claim_job(self._ctx, run_task_id)
            if job is not None:
                self.jobs.enter(job)
                yield job

    def _waiting(self) -> Sequence[uuid.UUID]:
        """The run's waiting jobs in their order, but for those that failed before."""
        with self._ctx.database.read() as session:
            return session.scalars(
                select(RunTask.id)
                .where(RunTask.run_id == self._run.id, RunTask.state == TaskState.QUEUED, RunTask.attempt == 0)
                .order_by(RunTask.position)
            ).all()

    def _another_run_waits(self) -> bool:
        return self._run.pinned_worker is None and another_waits(self._ctx, self._run, Step.DECODE)
