"""Execution rules for completions: as soon as their message arrives, within their budget."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session, defer

from app.completions import deadlines
from app.completions.models import COMPLETION, CompletionRun
from app.core.broker import queues
from app.core.context import Context
from app.core.db.database import call_after_commit
from app.core.db.types import get_utc_time
from app.core.remote import target as remote
from app.core.states import OPEN_RUN_STATES, RunState, WorkStep
from app.jobs.reaper import recover_each
from app.jobs.work.decode_job import prepare_engine
from app.runs import enqueue
from app.runs.configuration import build_engine_config
from app.runs.models import Run, RunTask
from app.runs.policy import LONG_COLUMNS, PendingWork, Policy

QUEUES = {WorkStep.DECODE: queues.GPU_INTERACTIVE, WorkStep.GRADE: queues.EXEC_INTERACTIVE}
MAX_CANDIDATES = 64  # the longest waiting ones


class CompletionPolicy(Policy):
    """A user waits for each completion, from the moment when it was accepted until its budget is over."""

    name = COMPLETION
    queues = QUEUES
    interactive = True

    def is_ready(self, session: Session, run: Run) -> bool:
        """Whether the completion that it waits for has ended: the two are never decoded at once."""
        assert isinstance(run, CompletionRun)
        before = session.get(Run, run.after_id) if run.after_id else None
        return before is None or before.state not in OPEN_RUN_STATES

    def on_prepare(self, session: Session, run: Run) -> None:
        """Starts the clock of plain decoding: until now it waited for the other side, not for a worker."""
        assert isinstance(run, CompletionRun)
        if run.after_id is not None:
            waiting = update(RunTask).where(RunTask.run_id == run.id, RunTask.state == WorkStep.DECODE.waiting)
            session.execute(waiting.values(queued_at=get_utc_time()))

    def list_pending_work(self, ctx: Context, session: Session, step: WorkStep) -> Sequence[PendingWork]:
        """Returns completions to decode, the earliest deadline first, including those pinned to this process.

        Grading follows its messages alone.
        """
        if step is not WorkStep.DECODE:
            return ()
        query = (
            select(RunTask.id, RunTask.queued_at, Run)
            .join(RunTask.run)
            .where(deadlines.build_waiting_condition(ctx))
            .order_by(Run.pinned_worker.is_(None), RunTask.queued_at, RunTask.position)
            .limit(MAX_CANDIDATES)
            .options(*map(defer, LONG_COLUMNS))
        )
        rows = sorted(session.execute(query), key=lambda row: row[1] + dt.timedelta(seconds=row[2].budget_s))
        return [PendingWork(run.id, run, run_task_id=run_task_id) for run_task_id, _, run in rows]

    def get_lease_s(self, ctx: Context, budget_s: float) -> float:
        """Half of the budget: if its worker is lost, another one has the other half left."""
        return deadlines.compute_lease_s(ctx, budget_s)

    def on_start(self, ctx: Context, run: Run) -> dt.datetime | None:
        """Restarts the clocks after a cold load. Loading time does not count against the budget."""
        if build_engine_config(run) in ctx.engines.list_configs() or remote.is_remote(run.target):
            return None
        prepare_engine(ctx, run)
        return deadlines.restart_clocks(ctx, run.id, run.target)

    def get_request_options(self, run: Run) -> dict[str, Any]:
        """Returns what a request to the OpenAI API may ask for.

        A completion that may use the prefix cache may also draft from earlier answers; one that is
        compared with plain decoding may not.
        """
        asked = {name: getattr(run, name) for name in ("n_min", "prompt_logprobs", "top_logprobs")}
        return {**asked, "earlier_answers": run.prefix_cache}

    def on_run_end(self, ctx: Context, session: Session, run: Run) -> None:
        """Asks for plain decoding to be prepared. The reaper asks again if that is lost."""
        second = select(CompletionRun.id).where(
            CompletionRun.after_id == run.id, CompletionRun.state == RunState.QUEUED
        )
        for run_id in session.scalars(second):
            call_after_commit(session, enqueue.enqueue_preparation, ctx, run_id)

    def recover(self, ctx: Context, ours: ColumnElement[bool]) -> None:
        """Answers completions whose budget is over."""
        with ctx.database.read() as session:
            overdue = deadlines.find_overdue(session)
        recover_each(overdue, lambda run_id: deadlines.enforce_deadline(ctx, run_id))
