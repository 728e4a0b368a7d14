"""Samples: what the model wrote, the clock, and the verdict."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

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
    or_,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.core.db.storable import InputText
from app.core.db.types import Base, Identified, Json, OutputText
from app.core.states import PASSED
from app.samples.transport import (
    ARCHIVE,
    EXPORT,
    IMPORT,
    REST,
    RUN_FILE,
    Count,
    LogProb,
    Seconds,
    Seed,
    WallSeconds,
    define_exported_column,
)
from evaluation.verdicts import Status, Trust

if TYPE_CHECKING:
    from app.runs.models import RunTask

FinishReason = Literal["stop", "length", "deadline", "cancelled", "error"]
FINISH_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)
FINISHED_REASONS: tuple[FinishReason, ...] = ("stop", "length")
"""Of a sample that was not cut off."""

DECODING_FORMATS = REST | EXPORT | IMPORT | ARCHIVE
GRADING_FORMATS = REST | EXPORT | ARCHIVE


class Sample(Identified, Base):
    """One of the n answers to a task. Times are seconds on the task's clock."""

    __tablename__ = "samples"
    __table_args__ = (
        UniqueConstraint("run_task_id", "index"),
        # All that counts and figures read: they touch no texts.
        Index(
            "ix_samples_measured",
            "run_id",
            "verdict",
            "run_task_id",
            "index",
            "n_tokens",
            "mean_logprob",
            "finish_reason",
            "finished_s",
            "n_rounds",
            "n_accepted",
            "trust",
            "calls",
        ),
        CheckConstraint(f"finish_reason IN {FINISH_REASONS}", name="finish_reason"),
    )

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    run_task_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("run_tasks.id", ondelete="CASCADE"))
    index: Mapped[int] = define_exported_column(DECODING_FORMATS | RUN_FILE, Count)
    seed: Mapped[int] = define_exported_column(DECODING_FORMATS, Seed, BigInteger)
    raw: Mapped[str] = define_exported_column(DECODING_FORMATS, str, OutputText, description="what the model wrote")
    # An imported sample brings its program. Any other has none before it is graded.
    program: Mapped[str | None] = define_exported_column(DECODING_FORMATS, str, OutputText, description="what was run")
    extraction: Mapped[str | None] = define_exported_column(
        DECODING_FORMATS,
        Annotated[InputText, Field(max_length=20)],
        String(20),
        description="how the one became the other",
    )
    extraction_version: Mapped[str | None] = define_exported_column(
        DECODING_FORMATS, Annotated[InputText, Field(max_length=40)], String(40)
    )
    finish_reason: Mapped[str] = define_exported_column(DECODING_FORMATS | RUN_FILE, FinishReason, String(20))
    n_tokens: Mapped[int] = define_exported_column(DECODING_FORMATS | RUN_FILE, Count, default=0)
    mean_logprob: Mapped[float | None] = define_exported_column(DECODING_FORMATS | RUN_FILE, LogProb)
    first_token_s: Mapped[float | None] = define_exported_column(DECODING_FORMATS, Seconds)
    # Every format has None instead for a sample that was cut off: runs.figures.get_finish_time.
    finished_s: Mapped[float | None] = define_exported_column(
        DECODING_FORMATS | RUN_FILE,
        WallSeconds,
        description="null for a sample that was cut off (finish_reason deadline, cancelled or error): it counts in no "
        "figure with a budget",
    )
    n_rounds: Mapped[int] = define_exported_column(DECODING_FORMATS | RUN_FILE, Count, default=0)
    n_drafted: Mapped[int] = define_exported_column(DECODING_FORMATS, Count, default=0)
    n_accepted: Mapped[int] = define_exported_column(DECODING_FORMATS | RUN_FILE, Count, default=0)
    token_ids: Mapped[list[int]] = mapped_column(deferred=True, default=list)
    logprobs: Mapped[list[float]] = mapped_column(deferred=True, default=list)  # one per token
    # One letter per token: `d` if the drafter proposed it, `t` if the target supplied it.
    origins: Mapped[str] = mapped_column(Text, deferred=True, default="")
    # Per token, the length of `raw` after it. None for samples from before it was stored.
    ends: Mapped[list[int] | None] = mapped_column(deferred=True)
    # Per token, the most likely tokens at its position as [text, log-probability], if the run asked for them.
    top_logprobs: Mapped[list[Any] | None] = mapped_column(Json, deferred=True)
    eos_logprob: Mapped[float | None]  # of the end-of-sequence token, if that ended the sample

    verdict: Mapped[str | None] = define_exported_column(
        GRADING_FORMATS | RUN_FILE, Status, String(20)
    )  # None until graded
    verdict_detail: Mapped[str | None] = define_exported_column(GRADING_FORMATS, str, OutputText, alias="detail")
    failing_assert: Mapped[str | None] = mapped_column(OutputText)
    got: Mapped[str | None] = mapped_column(OutputText)
    expected: Mapped[str | None] = mapped_column(OutputText)
    traceback: Mapped[str | None] = define_exported_column(REST, str, OutputText)
    calls: Mapped[int | None]  # of the program by the test
    cpu_s: Mapped[float | None] = define_exported_column(REST, Seconds)
    sandbox_wall_s: Mapped[float | None] = define_exported_column(EXPORT, Seconds, alias="sandbox_s")
    # The sandbox's tier.
    isolation: Mapped[str | None] = define_exported_column(
        REST | ARCHIVE, Annotated[InputText, Field(max_length=40)], String(40)
    )
    trust: Mapped[str | None] = define_exported_column(GRADING_FORMATS | RUN_FILE, Trust, String(40))
    graded_at: Mapped[dt.datetime | None]

    run_task: Mapped[RunTask] = relationship(back_populates="samples")


def has_failed() -> ColumnElement[bool]:
    """Whether a sample did not pass, judged otherwise or not finished, as a condition over Sample."""
    return or_(Sample.verdict != PASSED, Sample.finish_reason.not_in(FINISHED_REASONS))
