"""Runs, the job rows of their tasks, and the curves the leaderboard reads."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, String, Text, UniqueConstraint, false
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.annotations.models import Annotatable, TagRow
from app.datasets.models import Dataset, Task
from app.db.types import Base, Identified, Json, Named, OutputText, text_enum, utcnow
from app.runs.results import NO_FIGURES, Figures, FiguresColumn
from app.states import Failure, RunKind, RunState, TaskState

if TYPE_CHECKING:
    from app.samples.models import Sample


class Run(Named, Annotatable, Base):
    """One configuration over the tasks of a dataset, with everything needed to repeat it.

    `n_tasks` counts the requested tasks after exclusion; `excluded` lists `{"task_id", "reason"}` of those whose
    canonical solution fails here. `pinned_worker` names the only process that may work the run (`bassline eval`);
    None means any worker. A completion with `n_min` may get fewer than `n` samples while its worker is short of places,
    but at least these. `throughput` decodes several tasks in one batch. `prefix_cache` reuses the prefill of earlier
    prompts. `prompt_logprobs` and `top_logprobs` are those of decoding.request.Request. `figures` is None until the run
    has ended once. `provenance` is the engine's report when the first task was decoded, plus versions and the git
    commit. `error` says why the run failed, was interrupted or lacks tasks; `failure` is set only when it failed.
    `enqueued_at` is when the message that prepares the run was last sent; None hands the run over to the server that
    owns the database.
    `after_id` names a run that must have ended before this one is prepared.
    """

    __tablename__ = "runs"
    __table_args__ = (
        CheckConstraint("n >= 1", name="n_positive"),
        CheckConstraint("budget_s > 0", name="budget_positive"),
        Index("ix_runs_kind_state", "kind", "state"),
        Index("ix_runs_state", "state"),
    )

    kind: Mapped[RunKind] = mapped_column(text_enum(RunKind, "kind"), default=RunKind.EVAL)
    state: Mapped[RunState] = mapped_column(text_enum(RunState, "state"), default=RunState.QUEUED)
    dataset_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("datasets.id"), index=True)

    target: Mapped[str] = mapped_column(String(500))
    drafter: Mapped[str] = mapped_column(String(500))
    draft_length: Mapped[str] = mapped_column(String(40))
    acceptance: Mapped[str] = mapped_column(String(20))
    dtype: Mapped[str] = mapped_column(String(20))
    weights: Mapped[str] = mapped_column(String(20), default="dense", server_default="dense")
    device: Mapped[str] = mapped_column(String(20))
    n: Mapped[int]
    n_min: Mapped[int | None]
    budget_s: Mapped[float]
    temperature: Mapped[float]
    top_p: Mapped[float]
    seed: Mapped[int] = mapped_column(BigInteger)
    max_tokens: Mapped[int]
    prompt_mode: Mapped[str] = mapped_column(String(20))
    prompt_mode_used: Mapped[str | None] = mapped_column(String(20))
    time_limit_s: Mapped[float | None]
    throughput: Mapped[bool] = mapped_column(default=False, server_default=false())
    prefix_cache: Mapped[bool] = mapped_column(default=False, server_default=false())
    prompt_logprobs: Mapped[int | None]
    top_logprobs: Mapped[int] = mapped_column(default=0, server_default="0")

    n_tasks: Mapped[int]
    excluded: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    graded: Mapped[bool] = mapped_column(default=True)
    pinned_worker: Mapped[str | None] = mapped_column(String(200))
    provenance: Mapped[dict[str, Any]] = mapped_column(default=dict)
    command: Mapped[str] = mapped_column(Text, default="")
    error: Mapped[str | None] = mapped_column(Text)
    failure: Mapped[Failure | None] = mapped_column(text_enum(Failure, "failure"))
    figures: Mapped[Figures | None] = mapped_column(FiguresColumn)

    created_at: Mapped[dt.datetime] = mapped_column(default=utcnow, index=True)
    after_id: Mapped[uuid.UUID | None] = mapped_column(index=True)
    enqueued_at: Mapped[dt.datetime | None]
    started_at: Mapped[dt.datetime | None]
    finished_at: Mapped[dt.datetime | None]
    cancel_requested_at: Mapped[dt.datetime | None]

    dataset: Mapped[Dataset] = relationship()
    tasks: Mapped[list[RunTask]] = relationship(
        back_populates="run", order_by="RunTask.position", cascade="all, delete-orphan", passive_deletes=True
    )
    curve: Mapped[RunCurve | None] = relationship(
        back_populates="run", cascade="all, delete-orphan", passive_deletes=True
    )
    calibrations: Mapped[list[Calibration]] = relationship(
        order_by="Calibration.at", cascade="all, delete-orphan", passive_deletes=True
    )

    @hybrid_property
    def is_completion(self) -> bool:
        """Whether it answers prompts for a user who waits; of the class, the same as a condition."""
        return self.kind == RunKind.COMPLETION

    @property
    def is_imported(self) -> bool:
        """Whether another tool decoded its samples, so that its model is only a name."""
        return self.kind is RunKind.IMPORTED

    @property
    def measured(self) -> Figures:
        """`figures`, without any before the run has ended once."""
        return self.figures or NO_FIGURES

    @property
    def device_label(self) -> str:
        """The device the run was measured on, or the one it asks for before its first task was decoded."""
        return str(self.provenance.get("device_name") or self.provenance.get("device") or self.device)

    @property
    def measured_elsewhere(self) -> str | None:
        """Where the run of a loaded study was measured, None for one of this service."""
        return self.provenance.get("measured_elsewhere")


class RunTag(TagRow, Base):
    """A tag of a run."""

    __tablename__ = "run_tags"

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)


class RunTask(Identified, Base):
    """The job row: one task of one run. Times in seconds; `queue_s` is the wait before the engine started it.

    `attempt_token` fences writes: a worker that holds another token has lost the job. `enqueued_at` is when a broker
    message was last sent for it. `error` and `failure` describe the last failed attempt. `prompt_sent` is the text
    exactly as the model saw it; of its tokens, `cached_tokens` came from the prefix cache. `prompt_logprobs` holds
    [text, log-probability, likeliest] of each, where likeliest is a list of [text, log-probability]. While the task was
    decoded, others took `others_cpu_s` and the hypervisor `steal_s` of the `capacity_s` CPU seconds there were, None
    where that could not be read (app/jobs/work/machine_use.py).
    """

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
    state: Mapped[TaskState] = mapped_column(text_enum(TaskState, "state"), default=TaskState.QUEUED)
    attempt: Mapped[int] = mapped_column(default=0)
    attempt_token: Mapped[uuid.UUID | None]
    worker: Mapped[str | None] = mapped_column(String(200))
    lease_until: Mapped[dt.datetime | None]
    enqueued_at: Mapped[dt.datetime | None]
    queued_at: Mapped[dt.datetime] = mapped_column(default=utcnow)
    started_at: Mapped[dt.datetime | None]
    finished_at: Mapped[dt.datetime | None] = mapped_column(index=True)
    error: Mapped[str | None] = mapped_column(Text)
    failure: Mapped[Failure | None] = mapped_column(text_enum(Failure, "failure"))

    prompt_sent: Mapped[str | None] = mapped_column(OutputText)  # decoded token ids may hold any character
    prompt_version: Mapped[str | None] = mapped_column(String(40))
    n_prompt_tokens: Mapped[int | None]
    cached_tokens: Mapped[int | None]
    prompt_logprobs: Mapped[list[Any] | None] = mapped_column(Json, deferred=True)
    queue_s: Mapped[float | None]
    prefill_s: Mapped[float | None]
    draft_s: Mapped[float | None]
    verify_s: Mapped[float | None]
    other_s: Mapped[float | None]
    wall_s: Mapped[float | None]
    sandbox_s: Mapped[float | None]
    n_rounds: Mapped[int | None]
    n_verified: Mapped[int | None]
    peak_memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    capacity_s: Mapped[float | None]
    others_cpu_s: Mapped[float | None]
    steal_s: Mapped[float | None]
    load_average: Mapped[float | None]

    run: Mapped[Run] = relationship(back_populates="tasks")
    task: Mapped[Task] = relationship(lazy="joined", innerjoin=True)
    samples: Mapped[list[Sample]] = relationship(
        back_populates="run_task", order_by="Sample.index", cascade="all, delete-orphan", passive_deletes=True
    )


class RunCurve(Base):
    """Pass@First and Pass@All of a run as step functions of the budget (seconds), written when the run ends.

    `pass_first[i]` and `pass_all[i]` are shares from `budgets[i]` to the next, over `n_tasks` graded tasks, selector
    `mean_logprob`. The budgets are all those at which a share changes, and last the run's own. `tasks` names the set of
    these tasks (`figures.name_of_tasks`): only runs with equal sets compare.
    The leaderboard reads this one row per run.
    """

    __tablename__ = "run_curves"

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    n_tasks: Mapped[int]
    tasks: Mapped[str] = mapped_column(String(64), default="", server_default="")
    budgets: Mapped[list[float]]
    pass_first: Mapped[list[float]]
    pass_all: Mapped[list[float]]

    run: Mapped[Run] = relationship(back_populates="curve")


class Calibration(Identified, Base):
    """How fast `worker` was at one moment of a run: see decoding.request.Calibration."""

    __tablename__ = "calibrations"
    __table_args__ = (Index("ix_calibrations_run_id_at", "run_id", "at"),)

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    worker: Mapped[str] = mapped_column(String(200))
    at: Mapped[dt.datetime] = mapped_column(default=utcnow)
    verify_s: Mapped[float]
    read_bytes_per_s: Mapped[float]
    flops_per_s: Mapped[float | None]
