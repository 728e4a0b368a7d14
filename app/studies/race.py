"""Racing: an arm that is worse than another at every budget of interest is dropped, so that time goes to the rest."""

from __future__ import annotations

import uuid

import structlog
from sqlalchemy import update

from app.core.context import Context
from app.core.db.database import execute_change
from app.core.db.types import get_utc_time
from app.core.states import OPEN_RUN_STATES
from app.runs import transitions
from app.studies.analysis import compare_named_runs
from app.studies.models import Study, StudyArm
from app.studies.progress import compute_study_progress
from app.studies.repository import get_study
from evaluation.studies.racing import Drop, find_dropped, list_budgets_of_interest

LOOK_EVERY = 4  # tasks between two tests; the test is valid after any number of tasks
log = structlog.get_logger(__name__)


def drop_losers(ctx: Context, study_id: uuid.UUID) -> None:
    """Drops the arms that the tasks so far show to be worse than another. Does nothing in the middle of a block.

    Their waiting tasks are skipped; what they have finished stays. Safe to call at any time, any number of times: a
    drop that a killed process left half done is done first.
    """
    with ctx.database.read() as session:
        study = session.get_one(Study, study_id)
        if not study.race:
            return
        study = get_study(session, study_id)
        half_done = [arm.run_id for arm in study.arms if arm.dropped_at and arm.run.state in OPEN_RUN_STATES]
        running = [arm for arm in study.arms if arm.dropped_at is None and arm.run.state in OPEN_RUN_STATES]
        # Failed tasks count too: an arm that lost one to an error is still at the same task as the others.
        progress = compute_study_progress(session, study)
        n_tasks = {arm.run.n_tasks - progress[arm.run_id].open for arm in running}
        drops: tuple[Drop, ...] = ()
        if len(running) > 1 and len(n_tasks) == 1 and min(n_tasks) > 0 and min(n_tasks) % LOOK_EVERY == 0:
            arms = compare_named_runs(session, {arm.name: arm.run for arm in running}, study.budget_s)
            drops = find_dropped(arms, len(study.arms), list_budgets_of_interest(study.budget_s)) if arms else ()
    for run_id in half_done:
        transitions.skip_rest(ctx, run_id)
    for drop in drops:
        _drop(ctx, study, drop)


def _drop(ctx: Context, study: Study, drop: Drop) -> None:
    arms = {arm.name: arm for arm in study.arms}
    with ctx.database.session() as session:
        values = {"dropped_at": get_utc_time(), "dropped_by": arms[drop.by].position, "dropped_after": drop.n_tasks}
        mine = (StudyArm.id == arms[drop.arm].id, StudyArm.dropped_at.is_(None))
        if not execute_change(session, update(StudyArm).where(*mine).values(values)):
            return
    log.info("arm dropped", study=str(study.id), arm=drop.arm, by=drop.by, tasks=drop.n_tasks)
    transitions.skip_rest(ctx, arms[drop.arm].run_id)
