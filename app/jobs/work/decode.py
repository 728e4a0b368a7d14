"""The decode step of a job: claim, engine ready, generate before the deadline, store."""

from __future__ import annotations

import uuid

from app.context import Context
from app.jobs import turns
from app.jobs.claims import MAX_ATTEMPTS, Step
from app.jobs.work import calibrate, cpu_turns, study
from app.jobs.work.decode_batch import decode_together
from app.jobs.work.decode_completions import decode_completions
from app.jobs.work.decode_job import DecodeJob, claim_job, ready_engine
from app.remote import target as remote
from app.runs import enqueue
from app.runs.configuration import engine_config
from app.states import RunKind


def decode_task(ctx: Context, run_task_id: uuid.UUID) -> None:
    """Decodes the job whose turn it is when a message names this one. Safe to call for any id, any number of times.

    For a run in throughput mode it decodes further tasks of the run in the same batch, and for a completion those that
    come meanwhile.
    """
    job = turns.claim_next(ctx, run_task_id, Step.DECODE, lambda row_id: claim_job(ctx, row_id), engine_config)
    if job is None:
        return
    # A fault costs every job of a batch an attempt, so second attempts are made one by one; of completions the third,
    # because half of their time is over.
    if job.run.throughput and job.claim.attempt == 1:
        decode_together(ctx, job)
    elif _shares_a_batch(job):
        decode_completions(ctx, job)
    else:
        _decode(ctx, job)


def _shares_a_batch(job: DecodeJob) -> bool:
    is_remote = remote.is_remote(job.run.target)  # how requests share a batch there is the server's to decide
    return job.run.kind is RunKind.COMPLETION and not is_remote and job.claim.attempt < MAX_ATTEMPTS


def _decode(ctx: Context, job: DecodeJob) -> None:
    gave_way = False
    with job:
        # Under the lease, so that a model that kills its worker costs an attempt, but before the budget's clock starts.
        study.begin(ctx, job)
        engine = ready_engine(ctx, job.run)
        study.keep_to_device(ctx, job, engine)
        try:
            with cpu_turns.decoding(ctx, job, engine):
                calibrate.before_task(ctx, job, engine)
                completion = engine.generate(job.start(engine), job.live_updates, lambda: job.lease.stop is not None)
                job.end_clock()
                calibrate.after_task(ctx, job, engine)
        except cpu_turns.GaveWay:
            gave_way = True
            raise
        job.store(completion, job.lease.stop)
    if gave_way and job.claim.study_id is None:  # a study sends its next message itself
        enqueue.decode(ctx, [job.claim.run_task_id], job.claim.kind)
