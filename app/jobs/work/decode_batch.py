"""The decode step of several jobs of a run in one batch, for a run in throughput mode (docs/jobs.md)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sqlalchemy import select

from app.context import Context
from app.jobs import turns
from app.jobs.claims import Step
from app.jobs.lease import Stop
from app.jobs.work import calibrate
from app.jobs.work.decode_job import DecodeJob, claim_job, completion_waits, ready_engine
from app.runs.models import RunTask
from app.settings import MAX_BUDGET_S
from app.states import TaskState
from decoding.request import Completion, Request, Update

if TYPE_CHECKING:
    from app.ports import Engine

MIN_FILL_S = 30.0  # a batch takes jobs for this long even if one budget is as long as the longest


def decode_together(ctx: Context, first: DecodeJob) -> None:
    """Decodes `first`, and waiting jobs of its run as places in the engine's batch become free.

    Each is stored as soon as it is done. Nothing is added to the batch once the run stops, its time limit is over, a
    completion waits for this worker, another run waits and this one's turn is over, or the batch has lasted so long
    that one more budget would come near Celery's hard limit. Returns when the batch is empty; jobs that still wait have
    messages that name them.
    """
    batch = _Batch(ctx, first)
    try:
        engine = ready_engine(ctx, first.run)
        calibrate.before_task(ctx, first, engine)
        for position, outcome in engine.generate_many(batch.requests(engine), batch.update, batch.should_cancel):
            batch.end(position, outcome)
    except Exception as error:
        batch.end_all(error)
    finally:
        batch.close()


class _Batch:
    """The jobs that are with the engine; `_sent[i]` belongs to the i-th request."""

    def __init__(self, ctx: Context, first: DecodeJob) -> None:
        self._ctx, self._first, self._run = ctx, first, first.run
        self._open: dict[DecodeJob, ExitStack] = {}  # each entered, to be left when its outcome is there
        self._sent: list[DecodeJob] = []
        self._stop: Stop | None = None
        self._enter(first)

    def requests(self, engine: Engine) -> Iterator[Request]:
        """A request for each job, which is claimed when the engine asks for it."""
        for job in self._jobs():
            try:
                request = job.start(engine)
            except Exception as error:
                self._end(job, error)
                continue
            self._sent.append(job)
            yield request

    def update(self, position: int, updates: Sequence[Update]) -> None:
        """Passes on what a round added to the samples of one request."""
        self._sent[position].live_updates(updates)

    def should_cancel(self) -> bool:
        """Whether the run has stopped, or every job in the batch has been lost."""
        stops = {job.lease.stop for job in self._open}
        for stop in (Stop.CANCELLED, Stop.INTERRUPTED):
            if stop in stops:
                # Kept, because the other leases notice it later.
                self._stop = stop
        return self._stop is not None or stops == {Stop.FENCED}

    def end(self, position: int, outcome: Completion | Exception) -> None:
        """Stores the samples of a request, or ends its job with the error."""
        self._end(self._sent[position], outcome)

    def end_all(self, error: Exception) -> None:
        """Ends the jobs still in the batch with the error that ended it."""
        with ExitStack() as each:  # every one of them, even if the database refuses another
            for job in self._open:
                each.callback(self._end, job, error)

    def close(self) -> None:
        """Ends the leases of jobs still in the batch."""
        for entered in self._open.values():
            entered.close()

    def _enter(self, job: DecodeJob) -> None:
        self._open[job] = ExitStack()
        self._open[job].enter_context(job)

    def _end(self, job: DecodeJob, outcome: Completion | Exception) -> None:
        with self._open.pop(job):
            if isinstance(outcome, Exception):
                raise outcome
            job.end_clock()
            job.store(outcome, self._stop or job.lease.stop)

    def _jobs(self) -> Iterator[DecodeJob]:
        turn_ends = time.monotonic() + turns.TURN_S
        until = time.monotonic() + max(MAX_BUDGET_S - self._run.budget_s, MIN_FILL_S)
        yield self._first
        for run_task_id in self._waiting():
            if self._stop or self._ctx.stopping.is_set() or time.monotonic() >= until:
                return
            if completion_waits(self._ctx, self._run):
                return
            if time.monotonic() >= turn_ends and self._another_run_waits():
                return
            job = claim_job(self._ctx, run_task_id)
            if job is not None:
                self._enter(job)
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
        return self._run.pinned_worker is None and turns.another_waits(self._ctx, self._run, Step.DECODE)
