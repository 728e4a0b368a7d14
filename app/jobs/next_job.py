"""Which job is next: a message says that work waits, and the policies of what waits say which (docs/scheduling.md)."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import TypeVar

from sqlalchemy import select

from app.core.broker.turns import TurnScheduler
from app.core.context import Context
from app.core.states import WorkStep
from app.runs.models import Run, RunTask
from app.runs.policy import PendingWork, get_policy, list_policies

TRIES = 20  # other workers may claim the chosen job first, a few times in a row
T = TypeVar("T")


def claim_next(
    ctx: Context,
    run_task_id: uuid.UUID,
    step: WorkStep,
    claim: Callable[[uuid.UUID], T | None],
    is_loaded: Callable[[Run], bool] = lambda _: True,
) -> T | None:
    """What `claim` makes of the job whose turn it is when a message names `run_task_id`; None if none waits.

    Interactive runs, and runs pinned to this process, are worked as their messages come; all others take turns, where
    runs are preferred whose engine `is_loaded`.
    """
    with ctx.database.read() as session:
        named = session.execute(
            select(RunTask.run_id, Run.pinned_worker, Run.policy).join(RunTask.run).where(RunTask.id == run_task_id)
        ).one_or_none()
    jobs = _iterate_in_turn(ctx, run_task_id, step, is_loaded)
    if named is not None:
        run_id, pinned_worker, name = named
        policy = get_policy(name)
        if policy.interactive or pinned_worker is not None:
            jobs = policy.iterate_candidates(ctx, run_id, run_task_id, step)
    for job in itertools.islice(jobs, TRIES):
        claimed = claim(job)
        if claimed is not None:
            return claimed
    return None


def is_another_run_waiting(ctx: Context, run: Run) -> bool:
    """Whether another run waits to be decoded here, and takes turns with this one.

    A process with a pinned run takes no other work.
    """
    pending = [] if run.pinned_worker else _find_pending_work(ctx, WorkStep.DECODE, interactive=False)
    return any(waiting.run.id != run.id for waiting in pending)


def is_interactive_run_waiting(ctx: Context, run: Run) -> bool:
    """Whether a job waits to be decoded here for which a user waits: it goes before the next task of this run."""
    return run.pinned_worker is None and bool(_find_pending_work(ctx, WorkStep.DECODE, interactive=True))


def _find_pending_work(ctx: Context, step: WorkStep, *, interactive: bool) -> list[PendingWork]:
    with ctx.database.read() as session:
        asked = [policy for policy in list_policies() if policy.interactive is interactive]
        return [waiting for policy in asked for waiting in policy.list_pending_work(ctx, session, step)]


def _iterate_in_turn(
    ctx: Context, run_task_id: uuid.UUID, step: WorkStep, is_loaded: Callable[[Run], bool]
) -> Iterator[uuid.UUID]:
    """Jobs of the work that has the next turn; of its run any waiting job, preferably the one named."""
    turns = ctx.turns.setdefault(step, TurnScheduler())
    while waiting := _find_pending_work(ctx, step, interactive=False):
        chosen = turns.choose(waiting, lambda one: is_loaded(one.run))
        if chosen.run_task_id is not None:
            yield chosen.run_task_id
            continue
        jobs = select(RunTask.id).where(RunTask.run_id == chosen.run.id, RunTask.state == step.waiting)
        with ctx.database.read() as session:
            # A job that was claimed meanwhile is tried in vain, and what waits is looked at again.
            job = session.scalar(jobs.order_by(RunTask.id != run_task_id, RunTask.position).limit(1))
        yield job or run_task_id
