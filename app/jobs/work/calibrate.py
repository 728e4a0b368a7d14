"""When a worker measures how fast its machine is: before its first task of a run, during the run, after the last task.

Never within a task's budget, and not for an interactive job, for which a user waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from sqlalchemy import func, select

from app.core.context import Context
from app.core.states import TaskState
from app.jobs.work.decode_job import DecodeJob, is_out_of_time
from app.runs.models import Calibration, RunTask

if TYPE_CHECKING:
    from app.core.ports import Engine

EVERY_S = 60.0
"""Of the run's own decoding time, so that arms of a study, which take turns, are not measured more often."""
log = structlog.get_logger(__name__)


def measure_before_task(ctx: Context, job: DecodeJob, engine: Engine) -> None:
    """Measures if this process has not done so for the run, or EVERY_S of it was decoded since.

    Raises LostClaimError.
    """
    if job.claim.policy.interactive:
        return
    with ctx.database.read() as session:
        last = session.scalar(
            select(func.max(Calibration.at)).where(
                Calibration.run_id == job.run.id, Calibration.worker == ctx.worker_name
            )
        )
        if last is not None:
            spent = select(func.sum(RunTask.wall_s)).where(RunTask.run_id == job.run.id, RunTask.started_at > last)
            if (session.scalar(spent) or 0.0) < EVERY_S:
                return
    _measure(ctx, job, engine)


def measure_after_task(ctx: Context, job: DecodeJob, engine: Engine) -> None:
    """Measures if no other task of the run will be decoded. Raises LostClaimError.

    To be called before the task's samples are stored, so that the figures of the run include it.
    """
    if job.claim.policy.interactive or job.lease.stop_reason is not None:
        return
    others = select(RunTask.id).where(RunTask.run_id == job.run.id, RunTask.state == TaskState.QUEUED)
    with ctx.database.read() as session:
        is_last = session.scalar(others.limit(1)) is None
    if is_last or is_out_of_time(job.run):
        _measure(ctx, job, engine)


def _measure(ctx: Context, job: DecodeJob, engine: Engine) -> None:
    try:
        found = engine.calibrate()
    except RuntimeError as error:  # such as no memory left on the device: the task itself may still fit
        log.warning("calibration failed", run=str(job.run.id), error=str(error))
        return
    if found is None:
        return

    def store() -> None:
        with ctx.database.session() as session:
            session.add(
                Calibration(
                    run_id=job.run.id,
                    worker=ctx.worker_name,
                    verify_s=found.verify_s,
                    read_bytes_per_s=found.read_bytes_per_s,
                    flops_per_s=found.flops_per_s,
                )
            )

    job.lease.store(store)
