"""Execution rules for each kind of run.

Evaluations, arms of studies and completions share their rows, and the steps of their jobs. What differs is in a policy
of each: which job is next, where its message goes, how long a lost worker keeps it, what follows when it ends.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import ColumnElement, and_, false, func, or_, select
from sqlalchemy.orm import Session, defer

from app.core.broker import queues
from app.core.context import Context
from app.core.lazy_registry import LazyRegistry
from app.core.states import RunState, WorkStep
from app.runs import enqueue
from app.runs.models import EVALUATION, Run, RunTask


@dataclass(frozen=True, slots=True)
class PendingWork:
    """A run with a job that waits for a step; without `run_task_id` any waiting job of it will do.

    Runs of one `key` share turns, as arms do. `jobs_in_progress` counts the jobs that workers have claimed for the
    step.
    """

    key: uuid.UUID
    run: Run
    jobs_in_progress: int = 0
    run_task_id: uuid.UUID | None = None


class Policy(Protocol):
    """Execution rules for the runs with its name. Stateless: one object serves all threads of a process."""

    name: str
    """What `runs.policy` says of its runs, from their creation on."""

    queues: Mapping[WorkStep, str]
    """Where the messages for each step of its jobs go."""
    interactive: bool = False
    """Whether a user waits for each job: then it takes no turns, its clock starts when it is accepted, live views get
    its texts, and nothing else (a calibration, the grading of another task) keeps it waiting."""

    def is_ready(self, session: Session, run: Run) -> bool:
        """Whether a queued run may be prepared. If not, its message is sent again when it may."""
        return True

    def on_prepare(self, session: Session, run: Run) -> None:
        """Called in the transaction that makes a prepared run running, before its messages are sent."""
        return

    def list_pending_work(self, ctx: Context, session: Session, step: WorkStep) -> Sequence[PendingWork]:
        """Pending work that this worker may take for the step; runs pinned to a process are left out."""

    def iterate_candidates(
        self, ctx: Context, run_id: uuid.UUID, run_task_id: uuid.UUID, step: WorkStep
    ) -> Iterator[uuid.UUID]:
        """The jobs to try to claim, in order, when a message names a job of a run that takes no turns: an interactive
        one, or one pinned to a process."""
        yield run_task_id

    def build_waiting_condition(self, queue: str) -> ColumnElement[bool]:
        """Whether a job waits for a message in this queue, as a condition over RunTask."""
        step = next((step for step, its in self.queues.items() if its == queue), None)
        return RunTask.state == step.waiting if step else false()

    def send_messages(self, ctx: Context, run_id: uuid.UUID, step: WorkStep, run_task_ids: Sequence[uuid.UUID]) -> None:
        """Sends messages for jobs of the run that wait for the step."""
        if run_task_ids:
            enqueue.enqueue_jobs(ctx, step, run_task_ids, self.queues[step])

    def get_lease_s(self, ctx: Context, budget_s: float) -> float | None:
        """The lease while a job is decoded, where it must end sooner than usual; else None."""
        return None

    def on_start(self, ctx: Context, run: Run) -> dt.datetime | None:
        """Called before a claimed job's engine is loaded. Returns since when the job counts as
        waiting, if that has changed. Raises CannotLoadError, WorkStoppedError."""
        return None

    def list_runs_sharing_wait(self, session: Session, run_id: uuid.UUID) -> Sequence[uuid.UUID]:
        """The runs whose waits for a quiet machine count together towards one limit (app/runs/quiet.py)."""
        return [run_id]

    def get_request_options(self, run: Run) -> dict[str, Any]:
        """The fields of decoding.request.Request that only its runs choose, by name."""
        return {}

    def after_step(self, ctx: Context, run_id: uuid.UUID) -> None:
        """Called after each step of the run: prepared, or a job decoded, graded or failed."""
        return

    def on_run_end(self, ctx: Context, session: Session, run: Run) -> None:
        """Called in the transaction that ends a run."""
        return

    def recover(self, ctx: Context, ours: ColumnElement[bool]) -> None:
        """Called in each sweep of the reaper, before messages are sent again. `ours` is a condition over Run."""
        return


POLICIES = LazyRegistry[Policy](lambda policy: policy.name)


def list_policies() -> Sequence[Policy]:
    """All policies."""
    return list(POLICIES.get_all().values())


def get_policy(name: str) -> Policy:
    """The policy of runs that were stored with this name."""
    return POLICIES.get_all()[name]


def find_policy(session: Session, run_id: uuid.UUID) -> Policy:
    """The policy of a stored run."""
    return get_policy(session.execute(select(Run.policy).where(Run.id == run_id)).scalar_one())


def is_interactive() -> ColumnElement[bool]:
    """Whether a user waits for a run, as a condition over Run."""
    return Run.policy.in_([policy.name for policy in list_policies() if policy.interactive])


def build_waiting_condition(queue: str) -> ColumnElement[bool]:
    """`build_waiting_condition` of the policy of each run."""
    return or_(*(and_(Run.policy == policy.name, policy.build_waiting_condition(queue)) for policy in list_policies()))


QUEUES = {WorkStep.DECODE: queues.GPU_BATCH, WorkStep.GRADE: queues.EXEC}
LONG_COLUMNS = (Run.provenance, Run.figures, Run.excluded, Run.command)  # no choice of a next job needs them


class EvaluationPolicy(Policy):
    """Any waiting job of the run will do. Runs pinned to a process are decoded as their messages come."""

    name = EVALUATION
    queues = QUEUES

    def list_pending_work(self, ctx: Context, session: Session, step: WorkStep) -> Sequence[PendingWork]:
        """Returns every running evaluation that is not pinned to a process and has a job that waits for the step."""
        query = select(Run).where(Run.policy == self.name, has_unpinned_work(step)).options(*map(defer, LONG_COLUMNS))
        runs = session.scalars(query).all()
        in_progress = count_jobs_in_progress(session, step) if runs else {}
        return [PendingWork(run.id, run, in_progress.get(run.id, 0)) for run in runs]


def count_jobs_in_progress(session: Session, step: WorkStep) -> dict[uuid.UUID, int]:
    """How many jobs of each run workers have claimed for a step."""
    query = select(RunTask.run_id, func.count()).where(RunTask.state == step.working).group_by(RunTask.run_id)
    return dict(session.execute(query).all())


def has_unpinned_work(step: WorkStep) -> ColumnElement[bool]:
    """Whether a running run waits for a step that any worker may do, as a condition over Run."""
    waits = select(RunTask.id).where(RunTask.run_id == Run.id, RunTask.state == step.waiting).exists()
    return and_(Run.state == RunState.RUNNING, Run.pinned_worker.is_(None), waits)
