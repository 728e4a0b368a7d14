"""The decode step of a job: claim, engine ready, generate before the deadline, store."""

from __future__ import annotations

import uuid

from app.context import Context
from app.jobs import turns
from app.jobs.claims import Step
from app.jobs.work.decode_batch import decode_together
from app.jobs.work.decode_job import Taken, ready_engine, take_up
from app.runs import transitions
from app.runs.configuration import engine_config
from decoding.request import Completion


def decode_task(ctx: Context, run_task_id: uuid.UUID) -> None:
    """Decodes the task whose turn it is when this one is rung for. Safe to call for any id, any number of times.

    For a run that asks for throughput it works further tasks of the run beside it.
    """
    taken = turns.take(ctx, run_task_id, Step.DECODE, lambda row_id: take_up(ctx, row_id), engine_config)
    if taken is None:
        return
    # A fault costs every task of a batch an attempt; alone in the next, each stands for itself.
    if taken.run.throughput and taken.attempt == 1:
        decode_together(ctx, taken)
    else:
        _decode(ctx, taken)
        if taken.to_be_graded:
            return  # so the run has work left
    transitions.close_if_done(ctx, taken.run.id)


def _decode(ctx: Context, taken: Taken) -> None:
    lease = taken.lease
    outcome: Completion | Exception
    with lease:
        try:
            # Under the lease, so that a model that kills its worker costs an attempt, but on no task's clock.
            engine = ready_engine(ctx, taken.run)
            outcome = engine.generate(taken.start(engine), taken.narrator, lambda: lease.stop is not None)
        except Exception as error:
            outcome = error
        taken.settle(outcome, lease.stop)
