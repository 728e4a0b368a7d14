"""The decode step of a job: claim, engine ready, generate before the deadline, store."""

from __future__ import annotations

import uuid

from app.context import Context
from app.jobs import turns
from app.jobs.claims import Step
from app.jobs.work.decode_batch import decode_together
from app.jobs.work.decode_job import DecodeJob, claim_job, ready_engine
from app.runs.configuration import engine_config


def decode_task(ctx: Context, run_task_id: uuid.UUID) -> None:
    """Decodes the job whose turn it is when a message names this one. Safe to call for any id, any number of times.

    For a run in throughput mode it decodes further tasks of the run in the same batch.
    """
    job = turns.claim_next(ctx, run_task_id, Step.DECODE, lambda row_id: claim_job(ctx, row_id), engine_config)
    if job is None:
        return
    # A fault costs every job of a batch an attempt, so second attempts are made one by one.
    if job.run.throughput and job.claim.attempt == 1:
        decode_together(ctx, job)
    else:
        _decode(ctx, job)


def _decode(ctx: Context, job: DecodeJob) -> None:
    with job:
        # Under the lease, so that a model that kills its worker costs an attempt, but before the budget's clock starts.
        engine = ready_engine(ctx, job.run)
        completion = engine.generate(job.start(engine), job.live_updates, lambda: job.lease.stop is not None)
        job.store(completion, job.lease.stop)
