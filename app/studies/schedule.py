"""Whose turn it is in a study: the arms take turns task by task, and nothing of the study runs beside a task.

One job of a study is decoded or graded at a time, so that an arm is never measured beside another one's work. A broker
message for any job of a study only says that the study has work; `find_next_job` picks the job.
"""

from __future__ import annotations

import uuid

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.core.context import Context
from app.core.db.database import call_after_commit
from app.core.db.types import get_utc_time
from app.core.provenance import describe_machine
from app.core.states import RunState, TaskState, WorkStep
from app.runs import enqueue
from app.runs.models import Run, RunTask
from app.runs.policy import QUEUES
from app.studies.models import Study, StudyArm
from evaluation.studies.order import compute_task_positions, order_arms

BUSY_STATES = (TaskState.DECODING, TaskState.DECODED, TaskState.GRADING)


def find_next_job(session: Session, study_id: uuid.UUID, *, here_only: bool = False) -> RunTask | None:
    """The job whose turn it is; None while another is running, an arm waits to be prepared, or nothing is left.

    With `here_only` also None for a study that was started on another machine. The tasks, shuffled by the seed, are
    cut into blocks of `block_tasks`; in each, the arms have their turns in a balanced order.
    """
    study = session.get_one(Study, study_id)
    if here_only and not may_run_here(study):
        return None
    states = select(Run.state).join(StudyArm, StudyArm.run_id == Run.id).where(StudyArm.study_id == study_id)
    if RunState.QUEUED in session.scalars(states).all() or _is_busy(session, study_id):
        return None
    jobs = (
        select(StudyArm.position, RunTask.position, RunTask.id)
        .join(RunTask, RunTask.run_id == StudyArm.run_id)
        .join(Run, Run.id == StudyArm.run_id)
        .where(StudyArm.study_id == study_id)
    )
    waiting = session.execute(jobs.where(Run.state == RunState.RUNNING, RunTask.state == TaskState.QUEUED)).all()
    if not waiting:
        return None
    n_arms, n_tasks = session.execute(
        select(func.count(StudyArm.id.distinct()), func.max(RunTask.position) + 1)
        .join(RunTask, RunTask.run_id == StudyArm.run_id)
        .where(StudyArm.study_id == study_id)
    ).one()
    place_of = compute_task_positions(n_tasks, study.seed)
    block = min(place_of[task] for _, task, _ in waiting) // study.block_tasks
    turn_of = order_arms(n_arms, block, study.seed).index
    in_block = [row for row in waiting if place_of[row[1]] // study.block_tasks == block]
    *_, job_id = min(in_block, key=lambda row: (turn_of(row[0]), place_of[row[1]]))
    return session.get_one(RunTask, job_id)


def may_run_here(study: Study) -> bool:
    """Whether this machine may work the study: only the one that began it may."""
    return not study.machine or study.machine == describe_machine()


def send_next(ctx: Context, study_id: uuid.UUID) -> None:
    """Sends the message for the study's next job, if one can be decoded now."""
    with ctx.database.session() as session:
        job = find_next_job(session, study_id)
        if job is not None:
            job.enqueued_at = get_utc_time()
            call_after_commit(session, enqueue.enqueue_jobs, ctx, WorkStep.DECODE, [job.id], QUEUES[WorkStep.DECODE])


def _is_busy(session: Session, study_id: uuid.UUID) -> bool:
    busy = (
        select(RunTask.id)
        .join(StudyArm, StudyArm.run_id == RunTask.run_id)
        .join(Run, Run.id == RunTask.run_id)
        .where(StudyArm.study_id == study_id, RunTask.state.in_(BUSY_STATES), Run.state == RunState.RUNNING)
    )
    return session.scalar(busy.limit(1)) is not None
