"""The grade step of a job: extract a program from every sample, run them in the sandbox, store the verdicts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import select, update
from sqlalchemy.orm import joinedload

from app.context import Context
from app.datasets.service import as_plain
from app.db.database import reason
from app.db.types import as_written, utcnow
from app.errors import Unavailable
from app.events import event_types
from app.jobs import claims, turns
from app.jobs.claims import Claim, LostClaim, Step
from app.jobs.lease import Lease
from app.jobs.work.live_updates import task_changed
from app.runs import enqueue, transitions
from app.runs.models import RunTask
from app.samples.models import Sample
from app.states import TaskState
from evaluation.datasets import Task as PlainTask
from evaluation.extraction import Extraction
from evaluation.extractor import Extractor

if TYPE_CHECKING:
    from app.ports import Grader
    from evaluation.verdicts import Verdict

log = structlog.get_logger(__name__)
extractor = Extractor()


def grade_task(ctx: Context, run_task_id: uuid.UUID) -> None:
    """Grades the task whose turn it is when this one is rung for. Safe to call for any id, any number of times."""
    held = turns.take(ctx, run_task_id, Step.GRADE, lambda row_id: claims.claim(ctx, row_id, Step.GRADE), None)
    if held is None:
        return
    try:
        with Lease(ctx, held) as lease:
            _work(ctx, held, lease)
    except LostClaim:
        log.warning("graded for nothing: the job has another owner", run_task=str(held.run_task_id))
    except Unavailable as error:
        claims.give_back(ctx, held)
        _tell(ctx, held, TaskState.DECODED)
        transitions.interrupt(ctx, held.run_id, str(error))
    except Exception as error:
        sentence = f"grading failed: {reason(error)}"
        again = claims.retry_or_fail(ctx, held, sentence)
        log.exception("grading failed", run_task=str(held.run_task_id))
        if again:
            _tell(ctx, held, TaskState.DECODED)
            enqueue.ring_grade([held.run_task_id], held.kind)
        else:
            _tell(ctx, held, TaskState.FAILED, sentence)
    transitions.close_if_done(ctx, held.run_id)


def _work(ctx: Context, held: Claim, lease: Lease) -> None:
    with ctx.database.read() as session:
        row = session.get_one(RunTask, held.run_task_id, options=[joinedload(RunTask.run, innerjoin=True)])
        task, mode = as_plain(row.task), row.run.prompt_mode_used or "completion"
        samples = session.scalars(select(Sample).where(Sample.run_task_id == row.id).order_by(Sample.index)).all()
    _tell(ctx, held, TaskState.GRADING)
    started = time.monotonic()
    extractions = [_extracted(task, s, mode) for s in samples]
    verdicts = judge(ctx.make_grader(), [e.program for e in extractions], task, ctx.settings.exec_workers)
    sandbox_s = time.monotonic() - started
    lease.store(lambda: _store(ctx, held, samples, extractions, verdicts, sandbox_s))
    for sample, verdict in zip(samples, verdicts, strict=True):
        ctx.bus.publish(
            held.run_id,
            event_types.GRADED,
            {"task_id": task.task_id, "index": sample.index, "verdict": verdict.status, "trust": verdict.trust},
        )
    _tell(ctx, held, TaskState.FINISHED)


def _tell(ctx: Context, held: Claim, state: TaskState, error: str | None = None) -> None:
    task_changed(ctx, held.run_id, held.task_id, held.position, state, error)


def _extracted(task: PlainTask, sample: Sample, mode: str) -> Extraction:
    """The program in the model's text. An imported program is taken to the letter: it is what the other tool judged."""
    if sample.program is not None:
        return Extraction(as_written(sample.program), sample.extraction, sample.extraction_version)  # type: ignore[arg-type]
    return extractor.extract(task, as_written(sample.raw), mode)  # type: ignore[arg-type]


def judge(grader: Grader, programs: Sequence[str], task: PlainTask, workers: int) -> list[Verdict]:
    """A verdict per program; equal programs are judged once."""
    distinct = list(dict.fromkeys(programs))
    found = {distinct[i]: v for i, v in grader.judge_many([(p, task) for p in distinct], workers)}
    return [found[p] for p in programs]


def _store(
    ctx: Context,
    held: Claim,
    samples: Sequence[Sample],
    extractions: Sequence[Extraction],
    verdicts: Sequence[Verdict],
    sandbox_s: float,
) -> None:
    now = utcnow()
    with ctx.database.session() as session:
        claims.put_down(session, held, TaskState.FINISHED, error=None, finished_at=now, sandbox_s=sandbox_s)
        # One statement for all: by itself each update would cost more than the rest of the step.
        session.execute(
            update(Sample),
            [
                {
                    "id": sample.id,
                    "program": extraction.program,
                    "extraction": extraction.how,
                    "extraction_version": extraction.version,
                    "verdict": verdict.status,
                    "verdict_detail": verdict.detail,
                    "traceback": verdict.traceback,
                    "failing_assert": verdict.failing_assert,
                    "got": verdict.got,
                    "expected": verdict.expected,
                    "calls": verdict.calls,
                    "cpu_s": verdict.cpu_s,
                    "sandbox_wall_s": verdict.wall_s,
                    "isolation": verdict.isolation,
                    "trust": verdict.trust,
                    "graded_at": now,
                }
                for sample, extraction, verdict in zip(samples, extractions, verdicts, strict=True)
            ],
        )
