"""The decode step of several jobs of a run in one batch, for a run in throughput mode (docs/scheduling.md)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

from sqlalchemy import select

from app.background.leases import StopReason
from app.core.broker import turns
from app.core.settings import MAX_BUDGET_S
from app.core.states import TaskState, WorkStep
from app.jobs.next_job import is_another_run_waiting, is_interactive_run_waiting
from app.jobs.work import calibrate
from app.jobs.work.decode_job import DecodeJob, claim_decode_job
from app.jobs.work.shared_batch import Outcomes, SharedBatch
from app.runs.models import RunTask

MIN_FILL_S = 30.0  # a batch takes jobs for this long even if one budget is as long as the longest


class ThroughputBatch(SharedBatch):
    """One job, and waiting jobs of its run as places in the engine's batch become free.

    Each is stored as soon as it is done. Nothing is added to the batch once the run stops, its time limit is over, an
    interactive job waits for this worker, another run waits and this one's turn is over, or the batch has lasted so
    long that one more budget would come near Celery's hard limit. Jobs that still wait then have messages that name
    them.
    """

    _stop: StopReason | None = None

    def _decode_requests(self) -> Outcomes:
        engine = self._first.ready_engine()
        calibrate.measure_before_task(self._ctx, self._first, engine)
        # Each job is claimed when the engine asks for its request.
        requests = (request for job in self._iterate_jobs() for request in self._start(job, engine))
        return engine.generate_many(requests, self._update, lambda _: self._should_cancel())

    def _find_stop(self, job: DecodeJob) -> StopReason | None:
        return self._stop

    def _should_cancel(self) -> bool:
        """Whether the run has stopped, or every job in the batch has been lost."""
        stops = {job.lease.stop_reason for job in self._open}
        for stop in (StopReason.CANCELLED, StopReason.INTERRUPTED):
            if stop in stops:
                self._stop = stop  # kept, because the other leases notice it later
        return self._stop is not None or stops == {StopReason.FENCED}

    def _iterate_jobs(self) -> Iterator[DecodeJob]:
        turn_ends = time.monotonic() + turns.TURN_S
        until = time.monotonic() + max(MAX_BUDGET_S - self._first.run.budget_s, MIN_FILL_S)
        yield self._first
        for run_task_id in self._list_waiting():
            if self._stop or self._ctx.stopping.is_set() or time.monotonic() >= until:
                return
            if is_interactive_run_waiting(self._ctx, self._first.run):
                return
            if time.monotonic() >= turn_ends and self._is_another_run_waiting():
                return
            job = claim_decode_job(self._ctx, run_task_id)
            if job is not None:
                self._enter(job)
                yield job

    def _list_waiting(self) -> Sequence[uuid.UUID]:
        """The run's waiting jobs in their order, but for those that failed before."""
        with self._ctx.database.read() as session:
            return session.scalars(
                select(RunTask.id)
                .where(RunTask.run_id == self._first.run.id, RunTask.state == TaskState.QUEUED, RunTask.attempt == 0)
                .order_by(RunTask.position)
            ).all()

    def _is_another_run_waiting(self) -> bool:
        return self._first.run.pinned_worker is None and is_another_run_waiting(
            self._ctx, self._first.run, WorkStep.DECODE
        )
