"""How completions are worked: as their messages come, by a worker that has their model, within their budget."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import structlog
from sqlalchemy import ColumnElement, and_, select, update
from sqlalchemy.orm import Session, defer

from app.completions import deadlines, routing
from app.completions.models import COMPLETION, Completion
from app.core.broker import queues
from app.core.broker.model_queues import ModelQueue
from app.core.context import Context
from app.core.db.database import after_commit
from app.core.db.types import utcnow
from app.core.remote import target as remote
from app.core.states import OPEN_RUN_STATES, RunState, Step
from app.jobs.reaper import recover_each
from app.jobs.work.decode_job import ready_engine
from app.runs import enqueue
from app.runs.configuration import engine_config
from app.runs.evaluations import LONG_COLUMNS
from app.runs.models import Run, RunTask
from app.runs.policy import Policy, Waiting
from app.workers import declared

MOST_LOOKED_AT = 64  # of those that wait, the longest waiting
log = structlog.get_logger(__name__)


class CompletionPolicy(Policy):
    """A user waits for each completion, from the moment when it was accepted until its budget is over."""

    name = COMPLETION
    interactive = True

    def is_ready(self, session: Session, run: Run) -> bool:
        """Whether the completion that it waits for has ended: the two are never decoded at once."""
        assert isinstance(run, Completion)
        before = session.get(Run, run.after_id) if run.after_id else None
        return before is None or before.state not in OPEN_RUN_STATES

    def on_prepare(self, session: Session, run: Run) -> None:
        """Starts the clock of plain decoding: until now it waited for the other side, not for a worker."""
        assert isinstance(run, Completion)
        if run.after_id is not None:
            waiting = update(RunTask).where(RunTask.run_id == run.id, RunTask.state == Step.DECODE.waiting)
            session.execute(waiting.values(queued_at=utcnow()))

    def eligible(self, ctx: Context, session: Session, step: Step) -> Sequence[Waiting]:
        """Returns completions to decode, the earliest deadline first, including those pinned to this process.

        Grading follows its messages alone.
        """
        if step is not Step.DECODE:
            return ()
        query = (
            select(RunTask.id, RunTask.queued_at, Run)
            .join(RunTask.run)
            .where(routing.is_waiting_here(ctx, session))
            .order_by(Run.pinned_worker.is_(None), RunTask.queued_at, RunTask.position)
            .limit(MOST_LOOKED_AT)
            .options(*map(defer, LONG_COLUMNS))
        )
        rows = sorted(session.execute(query), key=lambda row: row[1] + dt.timedelta(seconds=row[2].budget_s))
        return [Waiting(run.id, run, run_task_id=run_task_id) for run_task_id, _, run in rows]

    def next(self, ctx: Context, run_id: uuid.UUID, run_task_id: uuid.UUID, step: Step) -> Iterator[uuid.UUID]:
        """Yields the job itself. Its message is sent on if another worker declared the model after it was sent."""
        if step is Step.DECODE and routing.is_owned_by_other_worker(ctx, run_task_id):
            self.send(ctx, run_id, step, [run_task_id])
        else:
            yield run_task_id

    def queue(self, ctx: Context, run_id: uuid.UUID, step: Step) -> str:
        """Returns the queue of the model for decoding, and the interactive one for grading."""
        return routing.queue_for(ctx, run_id) if step is Step.DECODE else queues.EXEC_INTERACTIVE

    def waits_in(self, queue: str, live: Collection[ModelQueue]) -> ColumnElement[bool]:
        """Whether a completion waits for a message in this queue, as a condition over RunTask joined with Run."""
        if queue == queues.EXEC_INTERACTIVE:
            return RunTask.state == Step.GRADE.waiting
        return and_(RunTask.state == Step.DECODE.waiting, routing.is_queued_in(queue, live))

    def lease_s(self, ctx: Context, budget_s: float) -> float:
        """Half of the budget: if its worker is lost, another one has the other half left."""
        return deadlines.lease_s(ctx, budget_s)

    def on_start(self, ctx: Context, run: Run) -> dt.datetime | None:
        """Restarts the clocks after a cold load. No clock runs while the model is loaded: it is not slow but absent."""
        if engine_config(run) in ctx.engines.held() or remote.is_remote(run.target):
            return None
        ready_engine(ctx, run)
        return deadlines.restart(ctx, run.id, run.target)

    def request_options(self, run: Run) -> dict[str, Any]:
        """Returns what a request to the OpenAI API may ask for, and the samples that are enough under load.

        One that may have its prompt's prefix from earlier ones may also be drafted from their answers: none that is
        held against plain decoding.
        """
        asked = {name: getattr(run, name) for name in ("n_min", "prompt_logprobs", "top_logprobs")}
        return {**asked, "earlier_answers": run.prefix_cache}

    def on_close(self, ctx: Context, session: Session, run: Run) -> None:
        """Asks for plain decoding to be prepared. The reaper asks again if that is lost."""
        second = select(Completion.id).where(Completion.after_id == run.id, Completion.state == RunState.QUEUED)
        for run_id in session.scalars(second):
            after_commit(session, enqueue.prepare, ctx, run_id)

    def recover(self, ctx: Context, ours: ColumnElement[bool]) -> None:
        """Answers completions whose budget is over, and moves those whose worker is gone."""
        with ctx.database.read() as session:
            overdue = deadlines.overdue(session)
        recover_each(overdue, lambda run_id: deadlines.enforce_deadline(ctx, run_id))
        _leave_lost_queues(ctx)


def _leave_lost_queues(ctx: Context) -> None:
    """Empties the queues of models that no live worker consumes any more. Their jobs count as never sent, so they are
    sent again at once, to where completions of the model go now."""
    with ctx.database.read() as session:
        lost = declared.lost(ctx, session)
    for queue in lost:
        if ctx.broker.queue_length(queue.name):
            log.warning("no live worker consumes a queue; its jobs are sent elsewhere", queue=queue.name)
            with ctx.database.session() as session:
                waiting = select(RunTask.id).join(RunTask.run).where(routing.waits_for(queue))
                session.execute(update(RunTask).where(RunTask.id.in_(waiting)).values(enqueued_at=None))
                after_commit(session, ctx.broker.purge, queue.name)
