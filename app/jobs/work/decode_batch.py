"""The decode step of several jobs in one batch of an engine (docs/scheduling.md): tasks of a run in throughput mode, or
interactive jobs as they come, each with its own clock. Each keeps its own lease, and ends by itself."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sqlalchemy import or_, select

from app.background.leases import StopReason
from app.core.broker import turns
from app.core.context import Context
from app.core.settings import MAX_BUDGET_S
from app.core.states import RunState, TaskState, WorkStep
from app.jobs.next_job import is_another_run_waiting, is_interactive_run_waiting
from app.jobs.work import calibrate
from app.jobs.work.decode_job import DecodeJob, claim_decode_job
from app.runs.configuration import build_engine_config
from app.runs.models import Run, RunTask
from app.runs.policy import PendingWork
from decoding.request import Completion, Request, Update

if TYPE_CHECKING:
    from app.core.ports import Engine
    from decoding.config import EngineConfig

MIN_FILL_S = 30.0  # a batch takes jobs for this long even if one budget is as long as the longest
POLL_S = 0.04  # between looks for jobs that have come and for clients that have left
Outcomes = Iterable[tuple[int, Completion | Exception]]
"""For each request that ends, its number and its samples or error."""


class SharedBatch(ABC):
    """Jobs from their claim until their outcome is stored. `_sent[i]` is the job of the i-th request."""

    def __init__(self, ctx: Context, first: DecodeJob) -> None:
        self._ctx, self._first = ctx, first
        self._sent: list[DecodeJob] = []
        self._open: dict[DecodeJob, ExitStack] = {}  # each entered, to be left when its outcome is there
        self._enter(first)

    def decode(self) -> None:
        """Returns when the batch is empty, and each job stored. An error of the engine ends those that are open."""
        try:
            for position, outcome in self._decode_requests():
                self._end(self._sent[position], outcome)
        except Exception as error:
            with ExitStack() as each:  # every one of them, even if the database refuses another
                for job in list(self._open):
                    each.callback(self._end, job, error)
        finally:
            for entered in self._open.values():
                entered.close()

    @abstractmethod
    def _decode_requests(self) -> Outcomes:
        """What the engine makes of the requests."""

    @abstractmethod
    def _find_stop(self, job: DecodeJob) -> StopReason | None:
        """Why the job's samples are not wanted any more; its lease may notice that later."""

    def _enter(self, job: DecodeJob) -> None:
        self._open[job] = ExitStack()
        self._open[job].enter_context(job)

    def _start(self, job: DecodeJob, engine: Engine) -> Iterator[Request]:
        """The job's request; none if it cannot be made, which ends the job."""
        try:
            request = job.start(engine)
        except Exception as error:
            self._end(job, error)
            return
        self._sent.append(job)
        yield request

    def _update(self, position: int, updates: Sequence[Update]) -> None:
        self._sent[position].live_updates(updates)

    def _end(self, job: DecodeJob, outcome: Completion | Exception) -> None:
        with self._open.pop(job):
            if isinstance(outcome, Exception):
                raise outcome
            job.end_clock()
            job.store(outcome, self._find_stop(job) or job.lease.stop_reason)


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
            if time.monotonic() >= turn_ends and is_another_run_waiting(self._ctx, self._first.run):
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


class InteractiveBatch(SharedBatch):
    """One job, and other jobs of its policy for the same engine as they come, until none is left.

    Nothing more is taken once a job for another engine has the earliest deadline, this process stops, or the
    batch has lasted so long that one more budget would come near Celery's hard limit.
    """

    _config: EngineConfig  # once the engine is ready: a head that was published since changes it

    def __init__(self, ctx: Context, first: DecodeJob) -> None:
        super().__init__(ctx, first)
        self._stops: dict[uuid.UUID, StopReason] = {}  # of runs that nobody waits for any more

    def _decode_requests(self) -> Outcomes:
        engine = self._first.ready_engine()
        self._config = build_engine_config(self._first.run)
        return engine.serve(self._iterate_requests(engine), self._update, self._is_unwanted)

    def _find_stop(self, job: DecodeJob) -> StopReason | None:
        return self._stops.get(job.run.id)

    def _iterate_requests(self, engine: Engine) -> Iterator[Request | None]:
        """A request for each job that is claimed, None while there is none to claim; ends when nothing is left."""
        until, looked_at = time.monotonic() + MAX_BUDGET_S, -POLL_S
        yield from self._start(self._first, engine)
        while True:
            if not self._open or time.monotonic() - looked_at >= POLL_S:
                self._look_for_unwanted()
                has_time = time.monotonic() < until and not self._ctx.stopping.is_set()
                if has_time and (job := self._claim_next()):
                    yield from self._start(job, engine)
                    continue
                looked_at = time.monotonic()
            if not self._open:
                return
            yield None

    def _is_unwanted(self, position: int) -> bool:
        job = self._sent[position]
        return job.lease.stop_reason is not None or self._find_stop(job) is not None

    def _claim_next(self) -> DecodeJob | None:
        if len(self._open) >= self._ctx.settings.completions_together:
            return None
        for waiting in self._list_waiting():
            if waiting.run_task_id is None or build_engine_config(waiting.run) != self._config:
                return None
            job = claim_decode_job(self._ctx, waiting.run_task_id)
            if job is not None:
                self._enter(job)
                return job
        return None

    def _list_waiting(self) -> Sequence[PendingWork]:
        """What this worker may decode, the most urgent first. A worker with a pinned run takes no other work."""
        with self._ctx.database.read() as session:
            found = self._first.claim.policy.list_pending_work(self._ctx, session, WorkStep.DECODE)
        return [waiting for waiting in found if waiting.run.pinned_worker == self._first.run.pinned_worker]

    def _look_for_unwanted(self) -> None:
        """A lease notices within half a second that its run was cancelled; a place is wanted back sooner than that."""
        ended = or_(Run.cancel_requested_at.is_not(None), Run.state != RunState.RUNNING)
        query = select(Run.id, Run.cancel_requested_at).where(Run.id.in_({j.run.id for j in self._open}), ended)
        with self._ctx.database.read() as session:
            for run_id, cancelled_at in session.execute(query):
                self._stops[run_id] = StopReason.INTERRUPTED if cancelled_at is None else StopReason.CANCELLED
