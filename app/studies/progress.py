"""How far the arms of studies are, in one query for all of them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.core.states import DECODED_TASK_STATES, OPEN_RUN_STATES, OPEN_TASK_STATES, UNDECODED_TASK_STATES, TaskState
from app.runs.models import RunTask
from app.runs.repository import ENOUGH_TASKS
from app.studies.models import Study, StudyArm


@dataclass(frozen=True, slots=True)
class ArmProgress:
    """Tasks of one arm by state, and the seconds that the engine took for those it has decoded."""

    by_state: Mapping[TaskState, int]
    engine_s: float

    @property
    def finished(self) -> int:
        """Tasks that need no more work."""
        return self.by_state.get(TaskState.FINISHED, 0)

    @property
    def decoded(self) -> int:
        """Decoded tasks, graded or not; no failed ones."""
        return sum(self.by_state.get(state, 0) for state in DECODED_TASK_STATES)

    @property
    def open(self) -> int:
        """Tasks with work left: decoding, grading or both."""
        return sum(self.by_state.get(state, 0) for state in OPEN_TASK_STATES)

    @property
    def waiting(self) -> int:
        """Tasks that the engine still has to decode or is decoding."""
        return sum(self.by_state.get(state, 0) for state in UNDECODED_TASK_STATES)


def compute_run_progress(session: Session, run_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, ArmProgress]:
    """The progress of each of these runs, by id."""
    query = (
        select(RunTask.run_id, RunTask.state, func.count(), func.sum(RunTask.wall_s))
        .where(RunTask.run_id.in_(run_ids))
        .group_by(RunTask.run_id, RunTask.state)
    )
    states: dict[uuid.UUID, dict[TaskState, int]] = {run_id: {} for run_id in run_ids}
    engine_s = dict.fromkeys(run_ids, 0.0)
    for run_id, state, number, wall_s in session.execute(query):
        states[run_id][state] = number
        engine_s[run_id] += (wall_s or 0.0) if state in DECODED_TASK_STATES else 0.0
    return {run_id: ArmProgress(states[run_id], engine_s[run_id]) for run_id in run_ids}


def compute_remaining_s(arms: Collection[StudyArm], progress: Mapping[uuid.UUID, ArmProgress]) -> float | None:
    """Seconds of decoding that the open arms have left, at the pace of their tasks so far.

    None until each of them has decoded ENOUGH_TASKS, because one task says little about the next. Grading is not in it.
    """
    left = [progress[arm.run_id] for arm in arms if arm.run.state in OPEN_RUN_STATES]
    left = [one for one in left if one.waiting]
    if any(one.decoded < ENOUGH_TASKS for one in left):
        return None
    return sum(one.waiting * one.engine_s / one.decoded for one in left)


def compute_study_progress(session: Session, study: Study) -> dict[uuid.UUID, ArmProgress]:
    """The progress of each arm's run, by the id of the run."""
    return compute_run_progress(session, [arm.run_id for arm in study.arms])
