"""Which queue a completion's message goes to, and which worker may decode it, so that models stay in memory.

A completion goes to a worker that declares its model, and to any worker if no live one does (docs/scheduling.md).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from sqlalchemy import ColumnElement, and_, false, or_, select
from sqlalchemy.orm import Session

from app.core.broker import queues
from app.core.broker.model_queues import DEVICE_CLASSES, ModelQueue
from app.core.context import Context
from app.core.states import RunState, TaskState
from app.runs.models import Run, RunTask
from app.workers import declared
from app.workers.models import Worker
from decoding.config import DEVICES

AUTO = "auto"


def queue_of(model: str, device: str, live: Collection[ModelQueue]) -> str:
    """The queue for completions of a model on a device (`auto`: any), where live workers consume these queues.

    With `auto`, a GPU goes before a CPU: more of the answer is ready within the budget.
    """
    for each in DEVICE_CLASSES:
        if device in (AUTO, each) and (queue := ModelQueue(each, model)) in live:
            return queue.name
    return queues.GPU_INTERACTIVE


def queue_for(ctx: Context, run_id: uuid.UUID) -> str:
    """The queue for the tasks of a completion, as workers are now."""
    with ctx.database.read() as session:
        live = declared.live(ctx, session)
        if not live:
            return queues.GPU_INTERACTIVE
        run = session.execute(select(Run.target, Run.device).where(Run.id == run_id)).one_or_none()
    return queue_of(run.target, run.device, live) if run else queues.GPU_INTERACTIVE


def is_queued_in(queue: str, live: Collection[ModelQueue]) -> ColumnElement[bool]:
    """Whether `queue_of` names this queue for a completion, as a condition over Run."""
    if queue == queues.GPU_INTERACTIVE:
        return ~_one_of(live)
    model_queue = ModelQueue.parse(queue)
    if model_queue is None:
        return false()
    devices = [device for device in DEVICES if queue_of(model_queue.model, device, live) == queue]
    return and_(Run.target == model_queue.model, Run.device.in_(devices))


def waits_for(queue: ModelQueue) -> ColumnElement[bool]:
    """Whether a completion waits that workers of this queue could decode, as a condition over RunTask and Run."""
    return and_(RunTask.state == TaskState.QUEUED, Run.is_completion, _one_of([queue]))


def is_waiting_here(ctx: Context, session: Session) -> ColumnElement[bool]:
    """Whether a task is one of a completion that waits to be decoded and that this worker may serve, as a condition
    over RunTask joined with Run. A worker that was asked to stop takes no more."""
    asked_to_stop = select(Worker.name).where(Worker.name == ctx.worker_name, Worker.stopped_at.is_not(None)).exists()
    return and_(
        ~asked_to_stop,
        RunTask.state == TaskState.QUEUED,
        Run.state == RunState.RUNNING,
        Run.is_completion,
        or_(Run.pinned_worker.is_(None), Run.pinned_worker == ctx.worker_name),
        _served_by(ctx, declared.live(ctx, session)),
    )


def is_owned_by_other_worker(ctx: Context, run_task_id: uuid.UUID) -> bool:
    """Whether the task of a completion waits to be decoded, and only by other workers than this one."""
    with ctx.database.read() as session:
        live = declared.live(ctx, session)
        if not live:
            return False
        theirs = (RunTask.id == run_task_id, RunTask.state == TaskState.QUEUED, ~_served_by(ctx, live))
        return session.scalar(select(RunTask.id).join(RunTask.run).where(*theirs)) is not None


def _served_by(ctx: Context, live: Collection[ModelQueue]) -> ColumnElement[bool]:
    """Whether this worker may decode a completion: it declares its model, or no live worker does."""
    return or_(_one_of(ctx.declared), ~_one_of(live))


def _one_of(model_queues: Collection[ModelQueue]) -> ColumnElement[bool]:
    """Whether workers of one of these queues could decode a completion, as a condition over Run."""
    return or_(
        false(), *(and_(Run.target == queue.model, Run.device.in_((AUTO, queue.device))) for queue in model_queues)
    )
