"""The queries of the first page: a row for each arm of the newest studies, and the datasets of own code."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.states import OPEN_RUN_STATES, RunState
from app.datasets.models import Dataset
from app.runs.models import Run
from app.studies.models import Study, StudyArm

STUDIES_READ = 100  # the newest


class EndedStudy(NamedTuple):
    """A study that may give the answer of the first page, with the runs of the arms that compare."""

    id: uuid.UUID
    name: str
    elsewhere: str | None  # where it was measured; None: here
    run_ids: list[uuid.UUID]


def list_ended_studies(session: Session) -> list[EndedStudy]:
    """The newest studies that have ended and are not archived, newest first.

    Arms that a race dropped, that failed or that are archived are left out.
    """
    is_open = Study.arms.any(StudyArm.run.has(Run.state.in_(OPEN_RUN_STATES)))
    newest = select(Study.id).where(Study.archived.is_(False), ~is_open).order_by(Study.id.desc()).limit(STUDIES_READ)
    query = (
        select(Study.id, Study.name, Study.measured_elsewhere, StudyArm.run_id)
        .join(Study.arms)
        .join(StudyArm.run)
        .where(Study.id.in_(newest.scalar_subquery()))
        .where(StudyArm.dropped_at.is_(None), Run.state != RunState.FAILED, Run.archived.is_(False))
        .order_by(Study.id.desc(), StudyArm.position)
    )
    found: dict[uuid.UUID, EndedStudy] = {}
    for row in session.execute(query):
        study = found.setdefault(row.id, EndedStudy(row.id, row.name, row.measured_elsewhere, []))
        study.run_ids.append(row.run_id)
    return list(found.values())


def list_own_code_hashes(session: Session) -> set[str]:
    """The sha256 of each dataset that was made from a project's code."""
    return set(session.scalars(select(Dataset.sha256).where(Dataset.coverage.is_not(None))))
