"""The decode step of completions: all that wait for one engine share its batch, each with its own clock (docs/jobs.md).

A user waits for each of them, so they join while others are decoded, the earliest deadline first.
"""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, or_, select

from app.context import Context
from app.jobs import deadlines
from app.jobs.lease import Stop
from app.jobs.work.decode_job import DecodeJob, claim_job, ready_engine
from app.jobs.work.open_jobs import OpenJobs
from app.runs.configuration import engine_config
from app.runs.models import Run, RunTask
from app.runs.schemas import EngineOptions
from app.settings import MAX_BUDGET_S
from app.states import RunKind, RunState, TaskState
from decoding.request import Completion, Request

if TYPE_CHECKING:
    from app.ports import Engine

POLL_S = 0.04  # between looks for completions that have come and for clients that have left
MOST_LOOKED_AT = 64  # of those that wait, the longest waiting


def decode_completions(ctx: Context, first: DecodeJob) -> None:
    """Decodes `first`, and other completions for the same engine as they come, until none is left.

    Nothing more is taken once a completion for another engine has the earliest deadline, this process stops, or the
    batch has lasted so long that one more budget would come near Celery's hard limit.
    """
    serving = _Serving(ctx, first)
    try:
        engine = serving.ready_engine()
        for position, outcome in engine.serve(serving.requests(engine), serving.jobs.update, serving.is_unwanted):
            serving.end(position, outcome)
    except Exception as error:
        serving.jobs.end_all(error)
    finally:
        serving.jobs.close()


class _Serving:
    """The completions that are with the engine."""

    def __init__(self, ctx: Context, first: DecodeJob) -> None:
        self._ctx, self._first = ctx, first
        self._config = engine_config(first.run)
        self.jobs = OpenJobs()
        self.jobs.enter(first)
        self._stops: dict[uuid.UUID, Stop] = {}  # of runs that nobody waits for any more
        self._looked_at = 0.0

    def ready_engine(self) -> Engine:
        """The engine. No completion's clock runs while it is loaded, for its model is not slow but absent."""
        is_cold = self._config not in self._ctx.engines.held()
        engine = ready_engine(self._ctx, self._first.run)
        if is_cold:
            self._first.queued_at = deadlines.restart(self._ctx, self._first.run.target)
        return engine

    def requests(self, engine: Engine) -> Iterator[Request | None]:
        """A request for each job that is claimed, None while there is none to claim; ends when nothing is left."""
        until = time.monotonic() + MAX_BUDGET_S
        job: DecodeJob | None = self._first
        while True:
            if job is not None:
                yield from self._started(job, engine)
            self._look_for_unwanted()
            has_time = time.monotonic() < until and not self._ctx.stopping.is_set()
            job = self._claimed() if has_time else None
            if job is None:
                if not self.jobs.jobs:
                    return
                yield None

    def is_unwanted(self, position: int) -> bool:
        """Whether the samples of a request are not waited for any more."""
        job = self.jobs.sent[position]
        return job.lease.stop is not None or job.run.id in self._stops

    def end(self, position: int, outcome: Completion | Exception) -> None:
        """Stores the samples of a request, or ends its job with the error."""
        job = self.jobs.sent[position]
        self.jobs.end(job, outcome, self._stops.get(job.run.id))

    def _started(self, job: DecodeJob, engine: Engine) -> Iterator[Request]:
        try:
            request = job.start(engine)
        except Exception as error:
            self.jobs.end(job, error)
            return
        self.jobs.sent.append(job)
        yield request

    def _claimed(self) -> DecodeJob | None:
        if len(self.jobs) >= self._ctx.settings.completions_together or not self._may_look():
            return None
        for row in self._waiting():
            if engine_config(row) != self._config:
                return None
            job = claim_job(self._ctx, row.run_task_id)
            if job is not None:
                self.jobs.enter(job)
                return job
        self._looked_at = time.monotonic()
        return None

    def _may_look(self) -> bool:
        return not self.jobs.jobs or time.monotonic() - self._looked_at >= POLL_S

    def _waiting(self) -> Sequence[Row[Any]]:
        """Completions that this worker may decode, the earliest deadline first."""
        options = [getattr(Run, name) for name in EngineOptions.model_fields]
        pinned = self._first.run.pinned_worker
        query = (
            select(RunTask.id.label("run_task_id"), RunTask.queued_at, Run.budget_s, *options)
            .join(RunTask.run)
            .where(
                RunTask.state == TaskState.QUEUED,
                Run.state == RunState.RUNNING,
                Run.kind == RunKind.COMPLETION,
                Run.pinned_worker.is_(None) if pinned is None else Run.pinned_worker == pinned,
            )
            .order_by(RunTask.queued_at, RunTask.position)
            .limit(MOST_LOOKED_AT)
        )
        with self._ctx.database.read() as session:
            rows = session.execute(query).all()
        return sorted(rows, key=lambda row: row.queued_at + dt.timedelta(seconds=row.budget_s))

    def _look_for_unwanted(self) -> None:
        """A lease notices within half a second that its run was cancelled; a place is wanted back sooner than that."""
        if not self._may_look():
            return
        ended = or_(Run.cancel_requested_at.is_not(None), Run.state != RunState.RUNNING)
        query = select(Run.id, Run.cancel_requested_at).where(Run.id.in_({j.run.id for j in self.jobs.jobs}), ended)
        with self._ctx.database.read() as session:
            for run_id, cancelled_at in session.execute(query):
                self._stops[run_id] = Stop.INTERRUPTED if cancelled_at is None else Stop.CANCELLED
