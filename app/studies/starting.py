"""What precedes the tasks of a study: every engine is tried first, and each arm keeps to one device."""

from __future__ import annotations

import uuid

from sqlalchemy import update

from app.core.context import Context
from app.core.db.types import utcnow
from app.core.provenance import this_machine
from app.core.states import OPEN_RUN_STATES, Failure
from app.datasets.service import as_plain
from app.jobs.job import CannotLoadError, StoppedError
from app.jobs.work.decode_job import prompt_for, ready_engine
from app.runs import transitions
from app.runs.configuration import engine_config
from app.runs.models import Run
from app.runs.repository import tasks_with_samples
from app.studies import service
from app.studies.models import Study
from app.studies.repository import get_study
from evaluation.prompting import PromptError

BLOCK_TASKS = 8  # for which an arm keeps its engine, where the engines of a study do not fit into memory together


def try_engines(ctx: Context, study_id: uuid.UUID) -> None:
    """Before the first task of a study, loads the engine of every open arm once and makes its first prompt.

    An arm that cannot be worked fails the whole study before anything is measured. If the engines do not fit into
    memory together, the arms take turns by blocks of tasks. Does nothing for a study that has begun. Raises
    CannotLoadError.
    """
    with ctx.database.read() as session:
        study = get_study(session, study_id)
        if study.checked_at is not None:
            return
        tasks = [as_plain(row.task) for row in tasks_with_samples(session, study.arms[0].run_id)[:1]]
    arms = [arm for arm in study.arms if arm.run.state in OPEN_RUN_STATES]
    for arm in arms:
        try:
            engine = ready_engine(ctx, arm.run)
            for task in tasks:
                prompt_for(engine, arm.run, task)
        except (CannotLoadError, PromptError) as error:
            failure = Failure.MODEL if isinstance(error, CannotLoadError) else Failure.REQUEST
            reason = f"arm {arm.position + 1} ({arm.name}): {error}; no arm was started"
            for other in study.runs:
                transitions.fail_run(ctx, other.id, failure, reason)
            raise CannotLoadError(reason) from error
    together = ctx.engines.fits(engine_config(arm.run) for arm in arms)
    with ctx.database.session() as session:
        begun = update(Study).where(Study.id == study.id, Study.checked_at.is_(None))
        block_tasks = 1 if together else BLOCK_TASKS
        session.execute(begun.values(checked_at=utcnow(), machine=this_machine(), block_tasks=block_tasks))


def keep_to_device(ctx: Context, study_id: uuid.UUID, run: Run) -> None:
    """Interrupts the study of an arm that was begun on another device. Raises StoppedError."""
    begun_on, device = run.provenance.get("device"), ready_engine(ctx, run).provenance().get("device")
    if begun_on is not None and begun_on != device:
        error = f"{run.name} was begun on {begun_on}, and this is {device}: resume the study there, or start a new one"
        service.interrupt(ctx, study_id, error)
        raise StoppedError
