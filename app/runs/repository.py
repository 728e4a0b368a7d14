"""Queries about runs and their tasks. Every function takes an open session."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, cast

from sqlalchemy import Select, func, select, tuple_
from sqlalchemy.orm import Session, contains_eager, defer, joinedload, raiseload, selectinload, undefer

from app.core.db.database import Database
from app.core.db.references import find_id
from app.core.db.types import get_utc_time
from app.core.errors import ConflictError, NotFoundError
from app.core.states import (
    DECODED_TASK_STATES,
    LISTED_RUN_KINDS,
    OPEN_RUN_STATES,
    PASSED,
    UNDECODED_TASK_STATES,
    RunState,
    TaskState,
)
from app.datasets.models import Dataset, Task
from app.runs.clock import sum_decoding_s
from app.runs.models import HIDDEN_RUN_ERRORS, Run, RunTask
from app.samples.models import Sample, has_failed

ROWS_AT_ONCE = 10_000
BATCH_TASKS = 10
"""Tasks read at a time: a task may have a hundred samples, and each of them some kilobytes of text."""
ENOUGH_TASKS = 3
"""Decoded tasks from which the time left is estimated."""
_FIGURE_COLUMNS = (
    Sample.index.label("number"),
    Sample.n_tokens,
    Sample.mean_logprob,
    Sample.finish_reason,
    Sample.finished_s,
    Sample.n_rounds,
    Sample.n_accepted,
    Sample.verdict,
    Sample.trust,
)
"""What figures need of a sample. The index ix_samples_measured has these columns, so that no text is read for them."""
_WITH_DATASET_AND_CURVE = (joinedload(Run.stored_dataset), joinedload(Run.curve))


class MeasuredSample(NamedTuple):
    """A sample without its texts: the columns of Sample with these names."""

    run_task_id: uuid.UUID
    index: int  # type: ignore[assignment]  # hides the method of tuples, as the attribute of Sample is called so
    n_tokens: int
    mean_logprob: float | None
    finish_reason: str
    finished_s: float | None
    n_rounds: int
    n_accepted: int
    verdict: str | None
    trust: str | None


class MeasuredTask:
    """A RunTask whose samples are of class MeasuredSample: a mapped object for each takes ten times the memory."""

    __slots__ = ("_row", "samples")

    def __init__(self, row: RunTask) -> None:
        self._row = row
        self.samples: list[MeasuredSample] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is."""

    state: RunState
    by_state: dict[TaskState, int]
    samples: int
    graded: int
    passed: int
    tokens: int
    decode_s: float
    elapsed_s: float | None
    time_limit_s: float | None

    @property
    def decoded(self) -> int:
        """Decoded tasks, graded or not, without failed and cancelled ones."""
        return sum(self.by_state.get(s, 0) for s in DECODED_TASK_STATES)

    @property
    def finished(self) -> int:
        """Tasks that need no more work: graded, or decoded in a run without tests."""
        return self.by_state.get(TaskState.FINISHED, 0)

    @property
    def left(self) -> int:
        """Tasks that are not finished: what an open run still has to do, and what resuming an ended one would do."""
        return sum(self.by_state.values()) - self.finished

    @property
    def resumable(self) -> bool:
        """Whether the run has ended with tasks left."""
        return self.state not in OPEN_RUN_STATES and self.left > 0

    @property
    def remaining_s(self) -> float | None:
        """Seconds of decoding left, an estimate; None until ENOUGH_TASKS have been decoded."""
        if not self.samples or self.decoded < ENOUGH_TASKS:
            return None
        waiting = sum(self.by_state.get(s, 0) for s in UNDECODED_TASK_STATES)
        remaining_s = self.decode_s / self.decoded * waiting
        if self.time_limit_s is None or self.elapsed_s is None:
            return remaining_s
        return min(remaining_s, max(self.time_limit_s - self.elapsed_s, 0.0))

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens generated per second of decoding; None before the first task."""
        return self.tokens / self.decode_s if self.decode_s > 0 else None


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list. Archived ones are left out unless `archived`.

    `name` is a part of the name, in upper or lower case.
    """

    kinds: Collection[str] = LISTED_RUN_KINDS
    states: Collection[RunState] = ()
    target: str | None = None
    dataset: str | None = None
    name: str | None = None
    archived: bool = False

    def apply(self, query: Select[Run]) -> Select[Run]:
        """The query with these conditions."""
        query = query.where(Run.kind.in_(self.kinds))
        if not self.archived:
            query = query.where(Run.archived.is_(False))
        if self.states:
            query = query.where(Run.state.in_(self.states))
        if self.target:
            query = query.where(Run.target == self.target)
        if self.dataset:
            query = query.join(Run.stored_dataset).where(Dataset.name == self.dataset)
        if self.name:
            query = query.where(Run.name.icontains(self.name, autoescape=True))
        return query


def list_runs(
    session: Session, wanted: RunFilter = RunFilter(), *, limit: int = 50, before: uuid.UUID | None = None
) -> Sequence[Run]:
    """Runs, newest first, with dataset loaded. The last id of a page is `before` of the next."""
    query = wanted.apply(select(Run)).options(*_WITH_DATASET_AND_CURVE)
    if before is not None:
        query = query.where(Run.id < before)  # ids grow with time
    return session.scalars(query.order_by(Run.id.desc()).limit(limit)).all()


def count_runs(session: Session, wanted: RunFilter) -> int:
    """How many runs list_runs would list without a limit."""
    ids = wanted.apply(select(Run)).with_only_columns(Run.id).subquery()
    return session.scalar(select(func.count()).select_from(ids)) or 0


def get_run(session: Session, run_id: uuid.UUID, *, hidden: bool = False) -> Run:
    """The run with its dataset and curve. Raises NotFoundError; also while its samples are stored or deleted,
    unless `hidden`."""
    run = session.scalar(select(Run).options(*_WITH_DATASET_AND_CURVE).where(Run.id == run_id))
    if run is None or (run.error in HIDDEN_RUN_ERRORS and not hidden):
        raise NotFoundError(f"there is no run {run_id}: `bassline runs list` shows all runs")
    return run


def lock_run(session: Session, run_id: uuid.UUID) -> Run:
    """The run as it is once no other transaction changes its state; others wait until this one ends.

    SQLite has one writer at a time anyway. Raises NotFoundError.
    """
    session.execute(select(Run.id).where(Run.id == run_id).with_for_update())
    session.execute(select(Run).where(Run.id == run_id), execution_options={"populate_existing": True})
    return get_run(session, run_id)


def find_run(session: Session, reference: str) -> Run:
    """The run with this id, this name (the newest), or this beginning of an id. Raises NotFoundError or
    BadInputError."""
    return get_run(session, find_id(session, Run, reference, "run", "bassline runs list", Run.is_shown()))


def load_tasks_with_samples(session: Session, run_id: uuid.UUID, *, origins: bool = False) -> Sequence[RunTask]:
    """All tasks of the run in dataset order, samples in index order; with `origins`, where their tokens came from."""
    samples = selectinload(RunTask.samples)
    if origins:
        samples = samples.options(undefer(Sample.origins), undefer(Sample.ends))
    return session.scalars(
        select(RunTask).where(RunTask.run_id == run_id).order_by(RunTask.position).options(samples)
    ).all()


def load_measured_tasks(session: Session, run_id: uuid.UUID) -> Sequence[RunTask]:
    """All tasks of the run in dataset order, their samples with only the columns that figures need.

    Each is a MeasuredTask, which reads like a RunTask. A run has thousands of samples, and nearly all of their data is
    text.
    """
    found = {row.position: MeasuredTask(row) for row in load_tasks(session, run_id)}
    samples = {position: (task.id, task.samples) for position, task in found.items()}
    query = select(RunTask.position, *_FIGURE_COLUMNS).join(RunTask, RunTask.id == Sample.run_task_id)
    # Past the ORM: a third of the time for so many rows.
    for rows in session.connection().execute(query.where(Sample.run_id == run_id)).partitions(ROWS_AT_ONCE):
        for position, *measured in rows:
            run_task_id, samples_of_task = samples[position]
            samples_of_task.append(MeasuredSample(run_task_id, *measured))
    for task in found.values():
        task.samples.sort(key=attrgetter("index"))
    return cast("Sequence[RunTask]", list(found.values()))


def load_tasks(session: Session, run_id: uuid.UUID) -> Sequence[RunTask]:
    """All tasks of the run in dataset order, without texts; reading their samples raises."""
    task = joinedload(RunTask.task, innerjoin=True).load_only(
        Task.task_id, Task.entry_point, Task.source, raiseload=True
    )
    return session.scalars(
        select(RunTask)
        .where(RunTask.run_id == run_id)
        .order_by(RunTask.position)
        .options(raiseload(RunTask.samples), task, defer(RunTask.prompt_sent, raiseload=True))
    ).all()


def load_tasks_with_logprobs(session: Session, run_id: uuid.UUID) -> Sequence[RunTask]:
    """All tasks of the run in dataset order, with their samples, log-probabilities and ends of tokens."""
    columns = (Sample.logprobs, Sample.ends, Sample.top_logprobs)
    samples = selectinload(RunTask.samples).options(*map(undefer, columns))
    query = select(RunTask).where(RunTask.run_id == run_id).order_by(RunTask.position)
    return session.scalars(query.options(samples, undefer(RunTask.prompt_logprobs))).all()


def iterate_tasks(database: Database, run_id: uuid.UUID) -> Iterator[RunTask]:
    """All tasks of the run in dataset order with their samples and task id, for a reader that keeps none of them.

    Each batch has a session of its own, so that a slow reader holds no connection and what was read is freed. Raises
    ConflictError if the run is deleted meanwhile: what was written so far would look complete.
    """
    query = (
        select(RunTask)
        .where(RunTask.run_id == run_id)
        .order_by(RunTask.position)
        .limit(BATCH_TASKS)
        .options(selectinload(RunTask.samples), joinedload(RunTask.task, innerjoin=True).load_only(Task.task_id))
    )
    last = -1
    while True:
        with database.read() as session:
            batch = session.scalars(query.where(RunTask.position > last)).all()
            # After the batch was read: a deletion hides the run before it deletes samples.
            if session.scalar(select(Run.id).where(Run.id == run_id, Run.is_shown())) is None:
                raise ConflictError("the run was deleted while it was exported")
        if not batch:
            return
        yield from batch
        last = batch[-1].position


def has_task_left_queue(session: Session, run_id: uuid.UUID) -> bool:
    """Whether a task of the run has left the queue."""
    taken = select(RunTask.id).where(RunTask.run_id == run_id, RunTask.state != TaskState.QUEUED).limit(1)
    return session.scalar(taken) is not None


def count_decoded_tasks_and_failed_samples(session: Session, run_id: uuid.UUID) -> tuple[int, int]:
    """(tasks that have samples, samples that did not pass: judged otherwise, or not finished) of a run."""
    some = select(Sample.id).where(Sample.run_task_id == RunTask.id).exists()
    n_decoded = session.scalar(select(func.count()).where(RunTask.run_id == run_id, some))
    return n_decoded or 0, session.scalar(select(func.count()).where(Sample.run_id == run_id, has_failed())) or 0


def list_task_ids(session: Session, run_id: uuid.UUID) -> Sequence[str]:
    """The ids of the run's tasks in dataset order."""
    ids = select(Task.task_id).join(RunTask, RunTask.task_pk == Task.id).where(RunTask.run_id == run_id)
    return session.scalars(ids.order_by(RunTask.position)).all()


def load_samples_page(
    session: Session,
    run_id: uuid.UUID,
    *,
    limit: int,
    after: tuple[int, ...] | None = None,
    task_id: str | None = None,
    verdict: str | None = None,
) -> Sequence[Sample]:
    """Samples by (position of the task, index) that come after `after`, with their task loaded."""
    query = (
        select(Sample)
        .join(Sample.run_task)
        .where(RunTask.run_id == run_id)
        .options(contains_eager(Sample.run_task).joinedload(RunTask.task))
    )
    if task_id:
        query = query.where(RunTask.task.has(Task.task_id == task_id))
    if verdict:
        query = query.where(Sample.verdict == verdict)
    if after:
        query = query.where(tuple_(RunTask.position, Sample.index) > after)
    return session.scalars(query.order_by(RunTask.position, Sample.index).limit(limit)).all()


def load_task_with_samples(session: Session, run_id: uuid.UUID, task_id: str) -> RunTask:
    """One task of the run, by the dataset's task id, with its samples. Raises NotFoundError."""
    row = session.scalar(
        select(RunTask)
        .join(RunTask.task)
        .where(RunTask.run_id == run_id, Task.task_id == task_id)
        .options(selectinload(RunTask.samples))
    )
    if row is None:
        raise NotFoundError(f"run {run_id} has no task {task_id!r}")
    return row


def compute_progress(session: Session, run: Run) -> RunProgress:
    """Counts of the run's tasks and samples, and an estimate of the seconds left."""
    by_state = dict(
        session.execute(
            select(RunTask.state, func.count()).where(RunTask.run_id == run.id).group_by(RunTask.state)
        ).all()
    )
    samples, graded, tokens = session.execute(
        select(func.count(), func.count(Sample.verdict), func.coalesce(func.sum(Sample.n_tokens), 0)).where(
            Sample.run_id == run.id
        )
    ).one()
    passed = session.scalar(select(func.count()).where(Sample.run_id == run.id, Sample.verdict == PASSED)) or 0
    walls = session.execute(
        select(RunTask.queued_at, RunTask.queue_s, RunTask.wall_s).where(RunTask.run_id == run.id)
    ).all()
    decode_s = sum_decoding_s(walls, together=run.throughput)
    elapsed_s = ((run.finished_at or get_utc_time()) - run.started_at).total_seconds() if run.started_at else None
    return RunProgress(
        state=run.state,
        by_state=by_state,
        samples=samples,
        graded=graded,
        passed=passed,
        tokens=int(tokens),
        decode_s=decode_s,
        elapsed_s=elapsed_s,
        time_limit_s=run.time_limit_s,
    )
