"""Runs, the job rows of their tasks, and the curves the leaderboard reads."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ColumnElement,
    ForeignKey,
    Index,
    String,
    Text,
    UniqueConstraint,
    case,
    false,
    func,
)
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.annotations.models import Annotatable
from app.background.models import Leased
from app.core.db.storable import InputText
from app.core.db.types import Base, Identified, Json, Named, OutputText, build_text_enum, get_utc_time
from app.core.states import Failure, RunKind, RunState, TaskState
from app.datasets.models import Dataset, Task, TaskList
from app.runs.results import NO_FIGURES, Figures, FiguresColumn
from app.samples.transport import (
    ARCHIVE,
    FILES,
    RUN_FILE,
    Count,
    Rate,
    Seconds,
    Time,
    VerifySeconds,
    WallSeconds,
    define_exported_column,
)

if TYPE_CHECKING:
    from app.samples.models import Sample


EVALUATION = "evaluation"
"""The name of the policy for runs that are neither arms nor completions."""
BEING_IMPORTED, BEING_DELETED = "its samples are being imported", "it is being deleted"
HIDDEN_RUN_ERRORS = (BEING_IMPORTED, BEING_DELETED)
"""The `error` of a run that is hidden."""


class Run(Named, Annotatable, Base):
    """One configuration over the tasks of a dataset, with everything needed to repeat it.

    The options from `target` to `prefix_cache` are explained in app/runs/schemas.py. A completion is a subclass with
    columns in a table of its own (app/completions/models.py).
    """

    __tablename__ = "runs"
    __table_args__ = (
        CheckConstraint("n >= 1", name="n_positive"),
        CheckConstraint("budget_s > 0", name="budget_positive"),
        Index("ix_runs_kind_state", "kind", "state"),
        Index("ix_runs_state", "state"),
    )

    kind: Mapped[RunKind] = mapped_column(build_text_enum(RunKind, "kind"), default=RunKind.EVAL)
    state: Mapped[RunState] = mapped_column(build_text_enum(RunState, "state"), default=RunState.QUEUED)
    dataset_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("datasets.id"), index=True)

    target: Mapped[str] = mapped_column(String(500))
    drafter: Mapped[str] = mapped_column(String(500))
    draft_length: Mapped[str] = mapped_column(String(40))
    acceptance: Mapped[str] = mapped_column(String(20))
    dtype: Mapped[str] = mapped_column(String(20))
    weights: Mapped[str] = mapped_column(String(20), default="dense", server_default="dense")
    device: Mapped[str] = mapped_column(String(20))
    n: Mapped[int]
    budget_s: Mapped[float]
    temperature: Mapped[float]
    top_p: Mapped[float]
    seed: Mapped[int] = mapped_column(BigInteger)
    max_tokens: Mapped[int]
    prompt_mode: Mapped[str] = mapped_column(String(20))
    prompt_mode_used: Mapped[str | None] = mapped_column(String(20))  # what `auto` came to
    time_limit_s: Mapped[float | None]
    throughput: Mapped[bool] = mapped_column(default=False, server_default=false())
    prefix_cache: Mapped[bool] = mapped_column(default=False, server_default=false())

    n_tasks: Mapped[int]  # the requested tasks, after exclusion
    # {"task_id", "reason"} of the tasks whose canonical solution fails here.
    excluded: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    graded: Mapped[bool] = mapped_column(default=True)  # False for a prompt without a test
    policy: Mapped[str] = mapped_column(String(20), default=EVALUATION, server_default=EVALUATION)  # app/runs/policy.py
    # The only process that may work the run (`bassline eval`); None means any worker.
    pinned_worker: Mapped[str | None] = mapped_column(String(200))
    # The engine's report when the first task was decoded, with versions and the git commit.
    provenance: Mapped[dict[str, Any]] = mapped_column(default=dict)
    # How long measuring waits for other programs to leave the machine (app/runs/quiet.py); None: it does not wait.
    quiet: Mapped[dict[str, Any] | None]
    command: Mapped[str] = mapped_column(Text, default="")  # repeats the run from a shell
    error: Mapped[str | None] = mapped_column(Text)  # why the run failed, was interrupted or lacks tasks
    failure: Mapped[Failure | None] = mapped_column(build_text_enum(Failure, "failure"))  # set only if the run failed
    figures: Mapped[Figures | None] = mapped_column(FiguresColumn)  # None until the run has ended once

    created_at: Mapped[dt.datetime] = mapped_column(default=get_utc_time, index=True)
    # When the message that prepares the run was last sent; None leaves the run to the server that owns the database.
    enqueued_at: Mapped[dt.datetime | None]
    started_at: Mapped[dt.datetime | None]
    finished_at: Mapped[dt.datetime | None]
    cancel_requested_at: Mapped[dt.datetime | None]

    stored_dataset: Mapped[Dataset | None] = relationship()
    tasks: Mapped[list[RunTask]] = relationship(
        back_populates="run", order_by="RunTask.position", cascade="all, delete-orphan", passive_deletes=True
    )
    curve: Mapped[RunCurve | None] = relationship(
        back_populates="run", cascade="all, delete-orphan", passive_deletes=True
    )
    calibrations: Mapped[list[Calibration]] = relationship(
        order_by="Calibration.at", cascade="all, delete-orphan", passive_deletes=True
    )

    __mapper_args__ = {  # noqa: RUF012 (SQLAlchemy reads it off the class)
        "polymorphic_on": case((kind == RunKind.COMPLETION, "completion"), else_="run"),
        "polymorphic_identity": "run",
    }

    @classmethod
    def is_shown(cls) -> ColumnElement[bool]:
        """Whether users see a run, as a condition: not while its samples are being stored or deleted."""
        return func.coalesce(cls.error, "").not_in(HIDDEN_RUN_ERRORS)

    @property
    def dataset(self) -> TaskList:
        """The dataset that the run is on: its name, hash and number of tasks."""
        stored = self.stored_dataset
        assert stored is not None
        return TaskList(stored.name, stored.sha256, stored.n_tasks)

    @hybrid_property
    def is_completion(self) -> bool:
        """Whether it answers prompts for a user who waits. On the class, the same as an SQL condition."""
        return self.kind == RunKind.COMPLETION

    @property
    def is_imported(self) -> bool:
        """Whether another tool decoded its samples, so that its model is only a name."""
        return self.kind is RunKind.IMPORTED

    @property
    def measured(self) -> Figures:
        """`figures`, or empty Figures before the run has ended once."""
        return self.figures or NO_FIGURES

    @property
    def device_label(self) -> str:
        """The device the run was measured on, or the one it asks for before its first task was decoded."""
        return str(self.provenance.get("device_name") or self.provenance.get("device") or self.device)

    @property
    def measured_elsewhere(self) -> str | None:
        """Where the run of a loaded study was measured, None for one of this service."""
        return self.provenance.get("measured_elsewhere")


class RunTask(Leased, Base):
    """The job row: one task of one run. Times in seconds."""

    __tablename__ = "run_tasks"
    __table_args__ = (
        UniqueConstraint("run_id", "task_pk"),
        UniqueConstraint("run_id", "position"),
        Index("ix_run_tasks_state_lease_until", "state", "lease_until"),
        Index("ix_run_tasks_run_id_state", "run_id", "state"),
    )

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    task_pk: Mapped[uuid.UUID] = mapped_column(ForeignKey("tasks.id"), index=True)
    position: Mapped[int]
    state: Mapped[TaskState] = define_exported_column(
        RUN_FILE, TaskState, build_text_enum(TaskState, "state"), default=TaskState.QUEUED
    )
    queued_at: Mapped[dt.datetime] = define_exported_column(RUN_FILE, Time, default=get_utc_time)
    started_at: Mapped[dt.datetime | None]
    finished_at: Mapped[dt.datetime | None] = mapped_column(index=True)
    error: Mapped[str | None] = mapped_column(Text)  # of the last attempt that failed
    failure: Mapped[Failure | None] = mapped_column(build_text_enum(Failure, "failure"))  # why that attempt failed

    # Exactly as the model saw it: decoded token ids may hold any character.
    prompt_sent: Mapped[str | None] = mapped_column(OutputText)
    prompt_version: Mapped[str | None] = mapped_column(String(40))
    n_prompt_tokens: Mapped[int | None] = define_exported_column(ARCHIVE, Count)
    cached_tokens: Mapped[int | None] = define_exported_column(ARCHIVE, Count)  # of these, from the prefix cache
    # Per token of the prompt, [text, log-probability, most likely tokens], the last as [text, log-probability] each.
    prompt_logprobs: Mapped[list[Any] | None] = mapped_column(Json, deferred=True)
    queue_s: Mapped[float | None] = define_exported_column(FILES, Seconds)  # the wait before the engine started it
    prefill_s: Mapped[float | None] = define_exported_column(ARCHIVE, Seconds)
    draft_s: Mapped[float | None] = define_exported_column(ARCHIVE, Seconds)
    verify_s: Mapped[float | None] = define_exported_column(ARCHIVE, Seconds)
    other_s: Mapped[float | None] = define_exported_column(ARCHIVE, Seconds)
    wall_s: Mapped[float | None] = define_exported_column(FILES, WallSeconds)
    sandbox_s: Mapped[float | None] = define_exported_column(ARCHIVE, Seconds)
    n_rounds: Mapped[int | None] = define_exported_column(ARCHIVE, Count)
    n_verified: Mapped[int | None] = define_exported_column(ARCHIVE, Count)
    peak_memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    # CPU seconds there were while the task was decoded, and those that other programs and the hypervisor took. None
    # where they could not be read: app/jobs/work/machine_use.py.
    capacity_s: Mapped[float | None] = define_exported_column(FILES, Seconds)
    others_cpu_s: Mapped[float | None] = define_exported_column(FILES, Seconds)
    steal_s: Mapped[float | None] = define_exported_column(FILES, Seconds)
    load_average: Mapped[float | None] = define_exported_column(ARCHIVE, Seconds)

    run: Mapped[Run] = relationship(back_populates="tasks")
    task: Mapped[Task] = relationship(lazy="joined", innerjoin=True)
    samples: Mapped[list[Sample]] = relationship(
        back_populates="run_task", order_by="Sample.index", cascade="all, delete-orphan", passive_deletes=True
    )


class RunCurve(Base):
    """Pass@First and Pass@All of a run as step functions of the budget (seconds), written when the run ends.

    The leaderboard reads this one row per run.
    """

    __tablename__ = "run_curves"

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    n_tasks: Mapped[int]  # graded ones
    # Names the set of these tasks (`figures.hash_task_ids`): only runs with equal sets compare.
    tasks: Mapped[str] = mapped_column(String(64), default="", server_default="")
    budgets: Mapped[list[float]]  # all at which a share changes, and last the run's own
    pass_first: Mapped[list[float]]  # [i] from budgets[i] to the next, selector `mean_logprob`
    pass_all: Mapped[list[float]]

    run: Mapped[Run] = relationship(back_populates="curve")


class Calibration(Identified, Base):
    """How fast `worker` was at one moment of a run; decoding.request.Calibration explains the figures."""

    __tablename__ = "calibrations"
    __table_args__ = (Index("ix_calibrations_run_id_at", "run_id", "at"),)

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    worker: Mapped[str] = define_exported_column(
        FILES, Annotated[InputText, Field(min_length=1, max_length=200)], String(200)
    )
    at: Mapped[dt.datetime] = define_exported_column(FILES, Time, default=get_utc_time)
    verify_s: Mapped[float] = define_exported_column(FILES, VerifySeconds)
    read_bytes_per_s: Mapped[float] = define_exported_column(FILES, Rate)
    flops_per_s: Mapped[float | None] = define_exported_column(ARCHIVE, Rate)
