"""Datasets, identified by the sha256 of their content, and tasks: of a dataset, or the prompts of one completion."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any, NamedTuple

from sqlalchemy import CheckConstraint, ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.core.db.types import Base, Identified, Named, build_text_enum, get_utc_time
from app.core.states import DatasetKind
from evaluation.datasets import PYTHON


class TaskList(NamedTuple):
    """What a run is over, as readers see it: a dataset, or the prompts of a completion."""

    name: str
    sha256: str
    n_tasks: int


class Dataset(Named, Base):
    """A named list of tasks. Datasets with the same name differ in content; the name refers to the newest.

    `left_out` are the functions or tasks that were left out: file, function, line, reason, detail, unlock;
    `coverage` says what share of the project became tasks (evaluation/from_code/coverage.py).
    """

    __tablename__ = "datasets"
    __table_args__ = (UniqueConstraint("name", "sha256"),)

    sha256: Mapped[str] = mapped_column(String(64), index=True)
    kind: Mapped[DatasetKind] = mapped_column(build_text_enum(DatasetKind, "kind"))
    n_tasks: Mapped[int]
    n_left_out: Mapped[int] = mapped_column(default=0)
    left_out: Mapped[list[dict[str, Any]] | None] = mapped_column(deferred=True)
    coverage: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    created_at: Mapped[dt.datetime] = mapped_column(default=get_utc_time)

    tasks: Mapped[list[Task]] = relationship(
        back_populates="dataset", order_by="Task.position", cascade="all, delete-orphan", passive_deletes=True
    )


class Task(Identified, Base):
    """One problem, in HumanEval's fields; evaluation.datasets.Task explains the rest."""

    __tablename__ = "tasks"
    __table_args__ = (
        UniqueConstraint("dataset_id", "task_id"),
        UniqueConstraint("dataset_id", "position"),
        UniqueConstraint("completion_id", "position"),
        CheckConstraint("(dataset_id IS NULL) <> (completion_id IS NULL)", name="one_owner"),
    )

    dataset_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("datasets.id", ondelete="CASCADE"))
    completion_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("completions.run_id", ondelete="CASCADE"))
    position: Mapped[int]  # in its dataset or completion, from 0
    task_id: Mapped[str] = mapped_column(String(200))
    prompt: Mapped[str] = mapped_column(Text)
    entry_point: Mapped[str] = mapped_column(String(200))
    test: Mapped[str] = mapped_column(Text)
    canonical_solution: Mapped[str] = mapped_column(Text)
    suffix: Mapped[str | None] = mapped_column(Text)
    stop: Mapped[list[str]]
    messages: Mapped[list[dict[str, Any]] | None]
    prompt_token_ids: Mapped[list[int] | None]
    program_prefix: Mapped[str | None] = mapped_column(Text)
    source: Mapped[dict[str, Any] | None]
    project_tests: Mapped[dict[str, Any] | None]
    module: Mapped[dict[str, Any] | None]
    language: Mapped[str] = mapped_column(String(30), default=PYTHON, server_default=PYTHON)
    signature: Mapped[dict[str, Any] | None]
    cases: Mapped[list[dict[str, Any]] | None]

    dataset: Mapped[Dataset | None] = relationship(back_populates="tasks")


class DatasetCheck(Identified, Base):
    """The result of running the canonical solutions of a dataset in one kind of sandbox: those that failed."""

    __tablename__ = "dataset_checks"
    __table_args__ = (UniqueConstraint("dataset_id", "sandbox"),)

    dataset_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("datasets.id", ondelete="CASCADE"))
    sandbox: Mapped[str] = mapped_column(String(200))
    failed: Mapped[list[str]]
    checked_at: Mapped[dt.datetime] = mapped_column(default=get_utc_time)
