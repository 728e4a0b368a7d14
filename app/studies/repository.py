"""Queries about studies. Every function takes an open session."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, joinedload, selectinload

from app.core.db.references import find_id
from app.core.errors import NotFoundError
from app.core.states import RunState
from app.runs.models import Run
from app.studies.models import Study, StudyArm


def _select_studies() -> Select[Study]:
    """Studies with their dataset, arms, and the arms' runs with dataset and curve."""
    run = selectinload(Study.arms).joinedload(StudyArm.run, innerjoin=True)
    return select(Study).options(
        joinedload(Study.dataset, innerjoin=True),
        run.joinedload(Run.stored_dataset, innerjoin=True),
        run.joinedload(Run.curve),
    )


def list_studies(
    session: Session, *, limit: int = 50, before: uuid.UUID | None = None, archived: bool = False
) -> Sequence[Study]:
    """Studies, newest first; with `archived` also archived ones.

    The last id of a page is `before` of the next.
    """
    query = _select_studies() if before is None else _select_studies().where(Study.id < before)
    if not archived:
        query = query.where(Study.archived.is_(False))
    return session.scalars(query.order_by(Study.id.desc()).limit(limit)).all()


def find_study_by_id(session: Session, study_id: uuid.UUID) -> Study | None:
    """The study with its arms and their runs, or None."""
    return session.scalar(_select_studies().where(Study.id == study_id))


def get_study(session: Session, study_id: uuid.UUID) -> Study:
    """The study with its arms and their runs. Raises NotFoundError."""
    study = find_study_by_id(session, study_id)
    if study is None:
        raise NotFoundError(f"there is no study {study_id}: `bassline study list` shows all studies")
    return study


def lock_study(session: Session, study_id: uuid.UUID) -> None:
    """Lets other changes of this study wait until the transaction ends. SQLite has one writer at a time anyway."""
    session.execute(select(Study.id).where(Study.id == study_id).with_for_update())


def find_study(session: Session, reference: str) -> Study:
    """The study with this id, this name (the newest), or this beginning of an id. Raises NotFoundError or
    BadInputError."""
    return get_study(session, find_id(session, Study, reference, "study", "bassline study list"))


def list_study_ids(session: Session) -> set[uuid.UUID]:
    """The ids of all studies."""
    return set(session.scalars(select(Study.id)))


def get_study_id(session: Session, run_id: uuid.UUID) -> uuid.UUID:
    """The id of the study of which the run is an arm. Raises NotFoundError for a run that is not an arm."""
    found = session.scalar(select(StudyArm.study_id).where(StudyArm.run_id == run_id))
    if found is None:
        raise NotFoundError(f"no study has the run {run_id} as an arm")
    return found


def count_rivals(session: Session, run_ids: Collection[uuid.UUID]) -> int:
    """How many configurations a reader of these runs chooses between: the compared arms, if they are of
    one study, as the study judges them; else the runs themselves."""
    if not are_arms_of_one_study(session, run_ids):
        return len(run_ids)
    study = session.get_one(Study, get_study_id(session, next(iter(run_ids))))
    compared = [arm for arm in study.arms if arm.dropped_at is None and arm.run.state is not RunState.FAILED]
    return max(len(compared), len(run_ids))


def are_arms_of_one_study(session: Session, run_ids: Collection[uuid.UUID]) -> bool:
    """Whether all runs are arms of one study, so that they were measured in turn."""
    found = session.scalars(select(StudyArm.study_id).where(StudyArm.run_id.in_(run_ids))).all()
    return len(found) == len(run_ids) and len(set(found)) == 1
