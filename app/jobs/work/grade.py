"""The grade step of a job: extract a program from every sample, run them in the sandbox, store the verdicts."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import select, update
from sqlalchemy.orm import Session, joinedload

from app.core.context import Context
from app.core.db.database import call_after_commit
from app.core.db.storable import restore_original_text
from app.core.db.types import get_utc_time
from app.core.events import event_types
from app.core.states import TaskState, WorkStep
from app.datasets.service import to_evaluation_task
from app.jobs import claims
from app.jobs.job import Job, WorkStoppedError
from app.jobs.next_job import claim_next
from app.jobs.work import cpu_turns
from app.runs.models import RunTask
from app.samples.models import Sample
from evaluation.datasets import Task as PlainTask
from evaluation.extraction import Extraction
from evaluation.extractor import Extractor

if TYPE_CHECKING:
    from evaluation.verdicts import Verdict

T = TypeVar("T")
COPIED = ("traceback", "failing_assert", "got", "expected", "calls", "cpu_s", "isolation", "trust")
"""The columns that have the names of a verdict's fields."""
extractor = Extractor()


def grade_task(ctx: Context, run_task_id: uuid.UUID) -> None:
    """Grades the job whose turn it is when a message names this one. Safe to call for any id, any number of times."""
    claim = claim_next(ctx, run_task_id, WorkStep.GRADE, lambda row_id: claims.claim_job(ctx, row_id, WorkStep.GRADE))
    if claim is not None:
        with Job(ctx, claim) as job:
            _grade(ctx, job)


def _grade(ctx: Context, job: Job) -> None:
    with ctx.database.read() as session:
        row = session.get_one(RunTask, job.claim.run_task_id, options=[joinedload(RunTask.run, innerjoin=True)])
        run, task = row.run, to_evaluation_task(row.task)
        mode = run.prompt_mode_used or "completion"
        samples = session.scalars(select(Sample).where(Sample.run_task_id == row.id).order_by(Sample.index)).all()
    with cpu_turns.hold_grading_turn(ctx, job):
        job.announce()
        started = time.monotonic()
        extractions = [_extract_sample(task, s, mode) for s in _iterate_while_wanted(job, samples)]
        verdicts = _judge(ctx, job, [e.program for e in extractions], task)
        sandbox_s = time.monotonic() - started
    now = get_utc_time()

    def write(session: Session) -> None:
        judged = [_build_graded_columns(*one, now) for one in zip(samples, extractions, verdicts, strict=True)]
        # One statement for all: an update for each would cost more than the rest of the step.
        session.execute(update(Sample), judged)
        for sample, verdict in zip(samples, verdicts, strict=True):
            event = {"task_id": task.task_id, "index": sample.index, "verdict": verdict.status, "trust": verdict.trust}
            call_after_commit(session, ctx.bus.publish, job.claim.run_id, event_types.GRADED, event)

    job.finish(TaskState.FINISHED, write, finished_at=now, sandbox_s=sandbox_s)


def _extract_sample(task: PlainTask, sample: Sample, mode: str) -> Extraction:
    """The program in the model's text. An imported program stays as it is: the other tool judged that."""
    if sample.program is not None:
        return Extraction(restore_original_text(sample.program), sample.extraction, sample.extraction_version)  # type: ignore[arg-type]
    return extractor.extract(task, restore_original_text(sample.raw), mode)  # type: ignore[arg-type]


def _judge(ctx: Context, job: Job, programs: Sequence[str], task: PlainTask) -> list[Verdict]:
    """A verdict per program; equal programs are judged once. Raises WorkStoppedError."""
    distinct = list(dict.fromkeys(programs))
    judged = ctx.make_grader().judge_many([(p, task) for p in distinct], ctx.settings.exec_workers)
    verdicts = {distinct[i]: verdict for i, verdict in _iterate_while_wanted(job, judged)}
    return [verdicts[p] for p in programs]


def _iterate_while_wanted(job: Job, items: Iterable[T]) -> Iterator[T]:
    """The items. Raises WorkStoppedError between two of them once the job is not wanted."""
    for item in items:
        if job.lease.stop_reason is not None:
            raise WorkStoppedError
        yield item


def _build_graded_columns(sample: Sample, extraction: Extraction, verdict: Verdict, now: dt.datetime) -> dict[str, Any]:
    return {
        "id": sample.id,
        "program": extraction.program,
        "extraction": extraction.location,
        "extraction_version": extraction.version,
        "verdict": verdict.status,
        "verdict_detail": verdict.detail,
        **{name: getattr(verdict, name) for name in COPIED},
        "sandbox_wall_s": verdict.wall_s,
        "graded_at": now,
    }
