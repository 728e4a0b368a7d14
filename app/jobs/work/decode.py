"""The decode step of a job: claim, engine ready, generate before the deadline, store."""

from __future__ import annotations

import uuid

from app.background.leases import MAX_ATTEMPTS
from app.core.context import Context
from app.core.remote import target as remote
from app.core.remote.chunks import ServerUnreachableError
from app.core.states import WorkStep
from app.jobs.job import CannotLoadError
from app.jobs.next_job import claim_next
from app.jobs.work import calibrate, cpu_turns, quiet_wait
from app.jobs.work.decode_batch import InteractiveBatch, ThroughputBatch
from app.jobs.work.decode_job import DecodeJob, claim_decode_job
from app.runs.configuration import build_engine_config


def decode_task(ctx: Context, run_task_id: uuid.UUID) -> None:
    """Decodes the job whose turn it is when a message names this one. Safe to call for any id, any number of times.

    For a run in throughput mode it decodes further tasks of the run in the same batch, and for an interactive job those
    that come meanwhile.
    """
    job = claim_next(
        ctx,
        run_task_id,
        WorkStep.DECODE,
        lambda row_id: claim_decode_job(ctx, row_id),
        lambda run: build_engine_config(run) in ctx.engines.list_configs(),
    )
    if job is None:
        return
    # A fault costs every job of a batch an attempt, so second attempts are made one by one; of interactive jobs the
    # third, because half of their time is over.
    if job.run.throughput and job.claim.attempt == 1:
        ThroughputBatch(ctx, job).decode()
    # How requests share a batch of a server is the server's to decide.
    elif job.claim.policy.interactive and not remote.is_remote(job.run.target) and job.claim.attempt < MAX_ATTEMPTS:
        InteractiveBatch(ctx, job).decode()
    else:
        _decode(ctx, job)


def _decode(ctx: Context, job: DecodeJob) -> None:
    gave_way = False
    with job:
        # Under the lease, so that a model that kills its worker costs an attempt, but before the budget's clock starts.
        engine = job.ready_engine()
        try:
            quiet_wait.wait_for_quiet(ctx, job, engine)
            with cpu_turns.hold_decoding_turn(ctx, job, engine):
                calibrate.measure_before_task(ctx, job, engine)
                completion = engine.generate(
                    job.start(engine), job.live_updates, lambda: job.lease.stop_reason is not None
                )
                job.end_clock()
                calibrate.measure_after_task(ctx, job, engine)
        except ServerUnreachableError as error:
            if job.claim.attempt < MAX_ATTEMPTS:
                raise
            raise CannotLoadError(str(error)) from error  # nor would it decode another task
        except cpu_turns.GaveWayError:
            gave_way = True
            raise
        job.store(completion, job.lease.stop_reason)
    if gave_way:
        job.claim.policy.send_messages(ctx, job.run.id, WorkStep.DECODE, [job.claim.run_task_id])
