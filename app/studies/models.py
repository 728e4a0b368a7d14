"""Studies and their arms. The work itself is in the runs of the arms: app/runs/models.py."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, String, Text, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.annotations.models import Annotatable
from app.core.db.types import Base, Identified, Named, get_utc_time
from app.core.states import OPEN_RUN_STATES, RunState
from app.datasets.models import Dataset
from app.runs.models import Run

ARM = "arm"
"""The name of the policy of the runs of arms."""


class Study(Named, Annotatable, Base):
    """Arms over the same tasks of a dataset, in the same time, with the same seed."""

    __tablename__ = "studies"

    dataset_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("datasets.id"), index=True)
    budget_s: Mapped[float]
    seed: Mapped[int] = mapped_column(BigInteger)
    race: Mapped[bool] = mapped_column(default=False, server_default=false())  # drops arms that are worse than another
    # Tasks after which the next arm has its turn: 1, or more where the engines cannot be loaded together.
    block_tasks: Mapped[int] = mapped_column(default=1)
    # Where the first task was decoded, {} before. Only this machine may continue the study.
    machine: Mapped[dict[str, Any]] = mapped_column(default=dict)
    checked_at: Mapped[dt.datetime | None]  # when a worker had loaded the engine of every arm once
    command: Mapped[str] = mapped_column(Text, default="")  # repeats the study from a shell
    measured_elsewhere: Mapped[str | None] = mapped_column(Text)  # where an imported study was run, else None
    created_at: Mapped[dt.datetime] = mapped_column(default=get_utc_time, index=True)

    dataset: Mapped[Dataset] = relationship()
    arms: Mapped[list[StudyArm]] = relationship(
        back_populates="study", order_by="StudyArm.position", cascade="all, delete-orphan", passive_deletes=True
    )

    @property
    def state(self) -> RunState:
        """Derived from the states of its arms; a study with a failed arm has finished if the others have."""
        arms = [arm.run.state for arm in self.arms]
        if any(state in OPEN_RUN_STATES for state in arms):
            waiting = all(state is RunState.QUEUED for state in arms)
            return RunState.QUEUED if waiting else RunState.RUNNING
        last = (RunState.INTERRUPTED, RunState.CANCELLED, RunState.FINISHED)
        return next((state for state in last if state in arms), RunState.FAILED)

    @property
    def n_disturbed_arms(self) -> int:
        """How many arms had a disturbed clock (app/runs/clock.py)."""
        return sum(bool(arm.run.measured.clock_marks) for arm in self.arms)

    @property
    def runs(self) -> list[Run]:
        """The runs of the arms, in their order."""
        return [arm.run for arm in self.arms]


class StudyArm(Identified, Base):
    """One configuration of a study. Its run is an ordinary run, on the leaderboard and in overlays."""

    __tablename__ = "study_arms"
    __table_args__ = (
        UniqueConstraint("study_id", "position"),
        UniqueConstraint("study_id", "name"),
    )

    study_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"), index=True)
    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id"), unique=True)
    position: Mapped[int]
    name: Mapped[str] = mapped_column(String(200))
    dropped_at: Mapped[dt.datetime | None]  # when the race gave the arm up
    dropped_by: Mapped[int | None]  # the position of the arm that is better at every budget of interest
    dropped_after: Mapped[int | None]  # the tasks that showed it

    study: Mapped[Study] = relationship(back_populates="arms")
    run: Mapped[Run] = relationship()
