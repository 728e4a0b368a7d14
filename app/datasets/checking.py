"""Checks the canonical solutions of a dataset in the sandbox, before they exclude tasks from runs."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable

from app.context import Context
from app.datasets import repository
from app.datasets.check_job import CheckLease, HeldByOtherError, claim_check
from app.datasets.models import Dataset
from app.datasets.service import as_plain
from app.errors import BasslineError, NotFoundError
from app.ports import Grader
from app.states import PASSED, SANDBOX_ERROR, Failure
from evaluation.datasets import Task as PlainTask
from evaluation.verdicts import Verdict

STEP_S = 2.0  # between two times at which results are stored: a killed worker loses no more
MAX_LOST = 3  # workers in a row that stopped without storing a step
RETRY_S = 0.5
OnJudged = Callable[[int, int], object]
OnFailed = Callable[[str, Verdict], object]


class WorkersLostError(BasslineError):
    """Workers were lost one after the other over the same solutions."""


class UnfinishedError(Exception):
    """The check was stopped before its end; its results so far are stored."""


def check_solutions(
    ctx: Context,
    dataset_id: uuid.UUID,
    grader: Grader,
    on_judged: OnJudged = lambda _done, _all: None,
    on_failed: OnFailed = lambda _task_id, _verdict: None,
) -> list[str]:
    """Returns what `check_for_a_while` returns, after as long as it takes; waits while another worker checks."""
    while True:
        try:
            return check_for_a_while(ctx, dataset_id, grader, on_judged, on_failed)
        except HeldByOtherError:
            time.sleep(RETRY_S)


def check_for_a_while(
    ctx: Context,
    dataset_id: uuid.UUID,
    grader: Grader,
    on_judged: OnJudged = lambda _done, _all: None,
    on_failed: OnFailed = lambda _task_id, _verdict: None,
    *,
    turn_s: float = math.inf,
    is_wanted: Callable[[], bool] = lambda: True,
) -> list[str]:
    """Ids of the tasks whose own solution fails in this sandbox, checked once per dataset content and sandbox.

    A task without a canonical solution cannot be checked and counts as fine. `on_judged` gets the number of solutions
    that are judged, and of all, `on_failed` each verdict of this call that is a failure. Goes on where an earlier call
    or a lost worker stopped. Raises NotFoundError for an unknown dataset, HeldByOtherError while another worker checks
    it, UnfinishedError after `turn_s` seconds or once `is_wanted` says no (asked after each step), and WorkersLostError
    if three workers were lost in a row.
    """
    with ctx.database.read() as session:
        dataset = session.get(Dataset, dataset_id)
        if dataset is None:
            raise NotFoundError(f"there is no dataset {dataset_id}")
        known = repository.check_of(session, dataset.id, grader.sandbox)
        tasks = [as_plain(t) for t in dataset.tasks if t.canonical_solution] if known is None else []
    if known is not None:
        return known.failed
    lease = claim_check(ctx, dataset_id, grader.sandbox)
    if lease.attempt > MAX_LOST:
        lease.release()  # so that a later run tries again
        raise WorkersLostError(_describe_loss(dataset, lease, tasks))
    with lease:
        try:
            _judge(ctx, lease, tasks, grader, on_judged, on_failed, time.monotonic() + turn_s, is_wanted)
        except HeldByOtherError:
            raise
        except BaseException:  # also Ctrl-C
            lease.release()
            raise
        failed = [task.task_id for task in tasks if task.task_id in set(lease.progress.failed)]
        lease.finish(failed)
    return failed


def _judge(
    ctx: Context,
    lease: CheckLease,
    tasks: list[PlainTask],
    grader: Grader,
    on_judged: OnJudged,
    on_failed: OnFailed,
    ends_at: float,
    is_wanted: Callable[[], bool],
) -> None:
    """Judges what is left, and stores a step at a time. Raises UnfinishedError, HeldByOtherError."""
    progress = lease.progress
    left = [number for number in range(len(tasks)) if number not in progress.judged]
    programs = [(tasks[n].program(tasks[n].canonical_solution), tasks[n]) for n in left]
    stored_at = time.monotonic()
    for position, verdict in grader.judge_many(programs, ctx.settings.exec_workers):
        lease.require_held()
        progress.judged.add(left[position])
        if verdict.status != PASSED:
            progress.failed.append(tasks[left[position]].task_id)
            on_failed(tasks[left[position]].task_id, verdict)
            progress.faults += verdict.status == SANDBOX_ERROR
        on_judged(len(progress.judged), len(tasks))
        if time.monotonic() - stored_at < STEP_S and not ctx.stopping.is_set():
            continue
        lease.store_step()
        stored_at = time.monotonic()
        if len(progress.judged) < len(tasks) and (stored_at >= ends_at or ctx.stopping.is_set() or not is_wanted()):
            raise UnfinishedError


def _describe_loss(dataset: Dataset, lease: CheckLease, tasks: list[PlainTask]) -> str:
    done = lease.progress
    return (
        f"{Failure.WORKER_LOST}: {MAX_LOST} workers in a row stopped while they checked the canonical solutions of "
        f"{dataset.name}: {len(done.judged)} of {len(tasks)} are checked, the next is the one of "
        f"{tasks[min(done.first_left, len(tasks) - 1)].task_id}: see the workers' logs, or leave that task out"
    )
