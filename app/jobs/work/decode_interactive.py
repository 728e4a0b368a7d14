"""The decode step of interactive jobs: jobs for one engine share its batch, each with its own clock.

A user waits for each of them, so they join while others are decoded, the earliest deadline first (docs/scheduling.md).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import or_, select

from app.background.leases import StopReason
from app.core.context import Context
from app.core.settings import MAX_BUDGET_S
from app.core.states import RunState, WorkStep
from app.jobs.work.decode_job import DecodeJob, claim_decode_job
from app.jobs.work.shared_batch import Outcomes, SharedBatch
from app.runs.configuration import build_engine_config
from app.runs.models import Run
from app.runs.policy import PendingWork
from decoding.request import Request

if TYPE_CHECKING:
    from app.core.ports import Engine
    from decoding.config import EngineConfig

POLL_S = 0.04  # between looks for jobs that have come and for clients that have left


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
