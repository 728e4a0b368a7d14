"""What is known of a worker that stopped answering: which step of a job it was in."""

from __future__ import annotations

from sqlalchemy.orm import Session

from app.core.states import Failure, Step
from app.runs.models import Run, RunTask
from app.workers.models import Worker

_LOST = f"{Failure.WORKER_LOST}: the worker stopped answering three times"
LOADING_LOST = f"{_LOST} while it loaded the model: is its memory enough?"
LOADED_LOST = f"{_LOST} after it had loaded the model and before it decoded a first task: see its log"
UNKNOWN_LOST = f"{_LOST} before it decoded a first task: see its log"
DECODING_LOST = f"{_LOST} while it decoded this task"
GRADING_LOST = f"{_LOST} while it graded this task"


def describe_loss(session: Session, row: RunTask, run: Run, step: Step) -> str:
    """The error of a job that lost its last worker.

    A worker reports itself before and after it loads a model (decode_job.ready_engine), and a run has a time of start
    once its first task is decoded.
    """
    if step is Step.GRADE:
        return GRADING_LOST
    worker = session.get(Worker, row.claimed_by) if row.claimed_by else None
    if worker is not None and worker.loading == run.target:
        return LOADING_LOST
    if run.started_at is not None:
        return DECODING_LOST
    loaded = worker is not None and run.target in worker.loaded
    return LOADED_LOST if loaded else UNKNOWN_LOST
