"""Samples: what the model wrote, the clock, and the verdict."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.types import Base, Identified, Json, OutputText

if TYPE_CHECKING:
    from app.runs.models import RunTask


class Sample(Identified, Base):
    """One of the n completions of a task. Times are seconds since the engine started the task.

    `raw` is the model's text, `program` the program that was run, `extraction` how it was taken from `raw`. `origins`
    has one letter per token: `d` if the drafter proposed it, `t` if the target supplied it. `ends[i]` is the length of
    `raw` after token i; None for samples from before it was stored. `top_logprobs[i]` lists the likeliest tokens in the
    place of token i as [text, log-probability], if the run asked for them; `eos_logprob` is the log-probability of the
    end-of-sequence token, if that ended the sample. `verdict` is a Status of
    evaluation/verdicts.py, None until graded.
    """

    __tablename__ = "samples"
    __table_args__ = (
        UniqueConstraint("run_task_id", "index"),
        Index("ix_samples_run_id_verdict", "run_id", "verdict"),
        CheckConstraint("finish_reason IN ('stop', 'length', 'deadline', 'cancelled', 'error')", name="finish_reason"),
    )

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    run_task_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("run_tasks.id", ondelete="CASCADE"))
    index: Mapped[int]
    seed: Mapped[int] = mapped_column(BigInteger)
    raw: Mapped[str] = mapped_column(OutputText)
    n_tokens: Mapped[int]
    mean_logprob: Mapped[float | None]
    finish_reason: Mapped[str] = mapped_column(String(20))
    first_token_s: Mapped[float | None]
    finished_s: Mapped[float | None]
    n_rounds: Mapped[int]
    n_drafted: Mapped[int]
    n_accepted: Mapped[int]
    token_ids: Mapped[list[int]] = mapped_column(deferred=True)
    logprobs: Mapped[list[float]] = mapped_column(deferred=True)
    origins: Mapped[str] = mapped_column(Text, deferred=True)
    ends: Mapped[list[int] | None] = mapped_column(deferred=True)
    top_logprobs: Mapped[list[Any] | None] = mapped_column(Json, deferred=True)
    eos_logprob: Mapped[float | None]

    program: Mapped[str | None] = mapped_column(OutputText)
    extraction: Mapped[str | None] = mapped_column(String(20))
    extraction_version: Mapped[str | None] = mapped_column(String(40))
    verdict: Mapped[str | None] = mapped_column(String(20))
    verdict_detail: Mapped[str | None] = mapped_column(OutputText)
    traceback: Mapped[str | None] = mapped_column(OutputText)
    failing_assert: Mapped[str | None] = mapped_column(OutputText)
    got: Mapped[str | None] = mapped_column(OutputText)
    expected: Mapped[str | None] = mapped_column(OutputText)
    calls: Mapped[int | None]
    cpu_s: Mapped[float | None]
    sandbox_wall_s: Mapped[float | None]
    isolation: Mapped[str | None] = mapped_column(String(40))
    trust: Mapped[str | None] = mapped_column(String(40))
    graded_at: Mapped[dt.datetime | None]

    run_task: Mapped[RunTask] = relationship(back_populates="samples")
