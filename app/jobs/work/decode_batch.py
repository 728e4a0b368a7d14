"""The decode step of several tasks of a run at once, for a run that asks for throughput (docs/jobs.md)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sqlalchemy import select

from app.broker import queues
from app.context import Context
from app.jobs import turns
from app.jobs.claims import Step
from app.jobs.lease import Stop
from app.jobs.work.decode_job import Taken, ready_engine, take_up
from app.runs import enqueue
from app.runs.models import Run, RunTask
from app.settings import MAX_BUDGET_S
from app.states import RunState, TaskState
from decoding.request import Completion, Request, Update

if TYPE_CHECKING:
    from app.ports import Engine

LEAST_S = 30.0  # a batch is filled for so long even where one budget is as long as the longest


def decode_together(ctx: Context, first: Taken) -> None:
    """Decodes `first`, and waiting tasks of its run as places in the engine's batch become free.

    Each is stored the moment it is done. Returns when no task is left, or when the batch, to which nothing is added
    any more, has drained: the run stops, its time limit is over, a completion waits for this worker, another run waits
    and the turn of this one is over, or the batch has lasted so long that one more budget would come near Celery's
    hard limit. What waits then has bells of its own.
    """
    batch = _Batch(ctx, first)
    try:
        engine = ready_engine(ctx, first.run)
        for position, outcome in engine.generate_many(batch.requests(engine), batch.tell, batch.should_cancel):
            batch.settle(position, outcome)
    except Exception as error:
        batch.settle_all(error)
    finally:
        batch.let_go()


class _Batch:
    """The tasks that are with the engine; `_sent[i]` is the one behind the i-th request."""

    def __init__(self, ctx: Context, first: Taken) -> None:
        self._ctx, self._first, self._run = ctx, first, first.run
        self._open: list[Taken] = []
        self._sent: list[Taken] = []
        self._stop: Stop | None = None
        self._hold(first)

    def requests(self, engine: Engine) -> Iterator[Request]:
        """A request for each task, which is claimed when the engine asks for it."""
        for taken in self._tasks():
            try:
                request = taken.start(engine)
            except Exception as error:
                self._settle(taken, error)
                continue
            self._sent.append(taken)
            yield request

    def tell(self, position: int, updates: Sequence[Update]) -> None:
        """Passes on what a round added to the samples of one request."""
        self._sent[position].narrator(updates)

    def should_cancel(self) -> bool:
        """Whether the run has stopped, or every task in the batch has been lost."""
        stops = {taken.lease.stop for taken in self._open}
        for stop in (Stop.CANCELLED, Stop.INTERRUPTED):
            if stop in stops:
                # Kept, because the leases of the other tasks come to know of it later.
                self._stop = stop
        return self._stop is not None or stops == {Stop.FENCED}

    def settle(self, position: int, outcome: Completion | Exception) -> None:
        """Stores or ends the task behind a request, and lets go of it."""
        self._settle(self._sent[position], outcome)

    def settle_all(self, error: Exception) -> None:
        """Ends the tasks still in the batch with the fault that ended it."""
        with ExitStack() as each:  # every one, also where the database refuses another
            for taken in self._open:
                each.callback(taken.settle, error, None)

    def let_go(self) -> None:
        """Ends the leases of the tasks still in the batch."""
        for taken in self._open:
            taken.lease.end()

    def _hold(self, taken: Taken) -> None:
        self._open.append(taken)
        taken.lease.begin()

    def _settle(self, taken: Taken, outcome: Completion | Exception) -> None:
        taken.settle(outcome, self._stop or taken.lease.stop)
        taken.lease.end()
        self._open.remove(taken)

    def _tasks(self) -> Iterator[Taken]:
        turn_ends = time.monotonic() + turns.TURN_S
        until = time.monotonic() + max(MAX_BUDGET_S - self._run.budget_s, LEAST_S)
        yield self._first
        for run_task_id in self._waiting():
            if self._stop or self._ctx.stopping.is_set() or time.monotonic() >= until or self._someone_waits():
                return
            if time.monotonic() >= turn_ends and self._another_waits():
                return
            taken = take_up(self._ctx, run_task_id)
            if taken is not None:
                self._hold(taken)
                yield taken

    def _waiting(self) -> Sequence[uuid.UUID]:
        """The run's waiting tasks in their order, but for those that failed before."""
        with self._ctx.database.read() as session:
            return session.scalars(
                select(RunTask.id)
                .where(RunTask.run_id == self._run.id, RunTask.state == TaskState.QUEUED, RunTask.attempt == 0)
                .order_by(RunTask.position)
            ).all()

    def _another_waits(self) -> bool:
        return self._run.pinned_worker is None and turns.another_waits(self._ctx, self._run, Step.DECODE)

    def _someone_waits(self) -> bool:
        """Whether a completion waits that this worker could do; one that works a run pinned to it does no others."""
        if self._run.pinned_worker is not None:
            return False
        with self._ctx.database.read() as session:
            return (
                session.scalar(
                    select(RunTask.id)
                    .join(RunTask.run)
                    .where(Run.state == RunState.RUNNING, enqueue.rings_in(queues.GPU_INTERACTIVE))
                    .limit(1)
                )
                is not None
            )
