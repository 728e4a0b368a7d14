"""Completions: runs over prompts of their own, with the columns that no other run has."""

from __future__ import annotations

import uuid

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.datasets.models import Task, TaskList
from app.runs.models import Run

COMPLETION = "completion"  # the name of the policy
NAME = "prompt"  # what readers see in place of a dataset's name


class CompletionRun(Run):
    """n samples of each prompt within one budget, for a user who waits.

    It shares the tables of jobs and samples with all runs: the work on jobs does not know why a run exists.
    """

    __tablename__ = "completions"
    __mapper_args__ = {  # noqa: RUF012 (SQLAlchemy reads it off the class)
        "polymorphic_identity": "completion",
        "polymorphic_load": "selectin",  # with every query that finds one, so that it can be read after its session
        "passive_deletes": True,  # the database's cascade deletes the row and the jobs that refer to its prompts
    }

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    prompts_sha256: Mapped[str] = mapped_column(String(64))  # equal for equal prompts and tests
    n_min: Mapped[int | None]  # samples that it gets at least while its worker has no room for `n`
    prompt_logprobs: Mapped[int | None]  # prompt_logprobs and top_logprobs: see decoding.request.Request
    top_logprobs: Mapped[int] = mapped_column(default=0, server_default="0")
    after_id: Mapped[uuid.UUID | None] = mapped_column(index=True)  # a run that must end before this one is prepared

    prompts: Mapped[list[Task]] = relationship(order_by=Task.position, passive_deletes="all")

    @property
    def dataset(self) -> TaskList:
        """The prompts, in place of a dataset."""
        return TaskList(NAME, self.prompts_sha256, self.n_tasks)
