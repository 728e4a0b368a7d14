"""Runs that no list shows: their samples are being stored from a file, or deleted, in the short steps of a job."""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from app.background.handlers import Handler, JobAttempt, UnfinishedError
from app.background.jobs import make_job
from app.background.leases import LostClaimError
from app.background.models import BackgroundJob
from app.background.work import run_job
from app.core.context import Context
from app.core.db.database import Database, call_after_commit, execute_change
from app.core.db.references import count_references
from app.core.db.types import get_utc_time
from app.core.errors import ConflictError
from app.core.states import OPEN_RUN_STATES, RunKind, RunState
from app.datasets.models import Task
from app.runs.models import BEING_DELETED, BEING_IMPORTED, Run, RunTask
from app.runs.repository import lock_run
from app.samples.models import Sample
from app.web.ui.units import format_count

T = TypeVar("T")
BATCH = 500  # rows of a step


def store_hidden_run(attempt: JobAttempt, run: Run, tasks: Sequence[Mapping[str, Any]]) -> None:
    """Stores the run, hidden, and the columns of its job rows, unless an earlier attempt has."""
    if attempt.cursor.get("run") == str(run.id):
        return
    run.kind, run.state, run.error, run.finished_at = (
        RunKind.HIDDEN,
        RunState.INTERRUPTED,
        BEING_IMPORTED,
        get_utc_time(),
    )

    def write(session: Session) -> None:
        session.add(run)
        session.flush()
        if tasks:  # an insert without rows writes one of defaults
            session.execute(insert(RunTask), tasks)

    attempt.cursor |= {"run": str(run.id), "stored": 0}
    attempt.save(write)


def map_job_ids(database: Database, run_id: uuid.UUID) -> dict[str, uuid.UUID]:
    """The ids of a run's job rows, by task id."""
    with database.read() as session:
        rows = session.execute(select(Task.task_id, RunTask.id).join(RunTask.task).where(RunTask.run_id == run_id))
        return {row.task_id: row.id for row in rows}


def store_samples(attempt: JobAttempt, samples: Iterable[Mapping[str, Any]], total: int) -> None:
    """Stores the columns of samples of a hidden run; all rows have the same columns."""
    for batch in _split_into_batches(islice(samples, attempt.cursor["stored"], None)):
        attempt.cursor["stored"] += len(batch)
        attempt.report(attempt.cursor["stored"], total, "samples")
        attempt.save(partial(_insert_samples, batch))


def _insert_samples(batch: Sequence[Mapping[str, Any]], session: Session) -> None:
    session.execute(insert(Sample), batch)


def unhide_run(run: Run, state: RunState, error: str | None, finished_at: dt.datetime) -> None:
    """Makes a hidden run an ended one that lists show."""
    run.kind, run.state, run.error, run.finished_at = RunKind.EVAL, state, error, finished_at


def create_deletion_job(session: Session, run_ids: Iterable[uuid.UUID]) -> uuid.UUID:
    """Stores the job that deletes hidden runs, in the transaction that hides them. Returns its id."""
    ids = [str(run_id) for run_id in run_ids]
    job = make_job(DeleteRuns.kind, f"{format_count(len(ids), 'run')}: {', '.join(ids)}", arguments={"run_ids": ids})
    session.add(job)
    return job.id


class DeleteRuns(Handler):
    """Deletes hidden runs, their samples a batch at a time. Others, and those that are gone, stay as they are."""

    kind = "delete_object"

    def run(self, job: BackgroundJob, attempt: JobAttempt) -> None:
        """Deletes what is left of them."""
        for number, run_id in enumerate(map(uuid.UUID, job.arguments["run_ids"])):
            attempt.report(number, len(job.arguments["run_ids"]), "runs")
            hidden = select(Run.id).where(Run.id == run_id, ~Run.is_shown())
            with attempt.ctx.database.read() as session:
                is_left = session.scalar(hidden) is not None
            while is_left:
                is_left = False

                def remove(session: Session, hidden: Any = hidden, run_id: uuid.UUID = run_id) -> None:
                    nonlocal is_left
                    some = select(Sample.id).where(Sample.run_id.in_(hidden)).limit(BATCH)
                    is_left = execute_change(session, delete(Sample).where(Sample.id.in_(some)))
                    if not is_left:
                        session.execute(delete(Run).where(Run.id == run_id, ~Run.is_shown()))

                attempt.save(remove)


class ImportHandler(Handler):
    """An import whose argument `run_ids` names the hidden runs that hold what its steps have stored."""

    reads_input = True

    def discard(self, ctx: Context, job: BackgroundJob) -> None:
        """Deletes these runs; another attempt starts over."""
        with ctx.database.session() as session:
            session.get_one(BackgroundJob, job.id).cursor = {}
            deletion = create_deletion_job(session, map(uuid.UUID, job.arguments["run_ids"]))
        with contextlib.suppress(UnfinishedError):  # a worker goes on
            run_job(ctx, deletion)


def _split_into_batches(rows: Iterable[T]) -> Iterator[list[T]]:
    """The rows in lists of BATCH."""
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def delete_run(ctx: Context, run_id: uuid.UUID) -> None:
    """Removes an ended run with its jobs, its samples and its reference run.

    Raises NotFoundError, or ConflictError while the run is open or an arm of a study.
    """
    with ctx.database.session() as session:
        run = lock_run(session, run_id)
        if run.state in OPEN_RUN_STATES:
            raise ConflictError(f"the run is {run.state}: cancel it before you delete it")
        if count_references(session, run):
            raise ConflictError("the run is an arm of a study: delete the study")
        job_id = hide_runs(ctx, session, [run])
    finish_deletion(ctx, job_id)


def hide_runs(ctx: Context, session: Session, runs: Sequence[Run]) -> uuid.UUID:
    """Hides ended runs and their reference runs; forgets their events after COMMIT. Returns the id of the job that
    deletes them, for the caller to work: samples go in short steps, so that others write meanwhile."""
    ids = [run.id for run in runs] + [uuid.UUID(run.measured.plain_run) for run in runs if run.measured.plain_run]
    for run_id in ids:
        call_after_commit(session, ctx.bus.forget, run_id)
    hidden = update(Run).where(Run.id.in_(ids)).values(kind=RunKind.HIDDEN, error=BEING_DELETED)
    session.execute(hidden, execution_options={"synchronize_session": False})
    return create_deletion_job(session, ids)


def finish_deletion(ctx: Context, job_id: uuid.UUID) -> None:
    """Works a deletion now; where this process stops, or another one was faster, a worker does it."""
    with contextlib.suppress(UnfinishedError, LostClaimError):
        run_job(ctx, job_id)
