"""What a worker does for a study beside its tasks: it tries every engine first, and keeps to one machine."""

from __future__ import annotations

from sqlalchemy import update

from app.context import Context
from app.datasets.service import as_plain
from app.db.types import utcnow
from app.jobs.job import CannotLoad, Stopped
from app.jobs.work.decode_job import DecodeJob, prompt_for, ready_engine
from app.ports import Engine
from app.provenance import this_machine
from app.runs import transitions
from app.runs.configuration import engine_config
from app.runs.repository import tasks_with_samples
from app.states import OPEN_RUN_STATES, Failure
from app.studies import service
from app.studies.models import Study
from app.studies.repository import get_study
from evaluation.prompting import PromptError

BLOCK_TASKS = 8  # for which an arm keeps its engine, where the engines of a study do not fit into memory together


def begin(ctx: Context, job: DecodeJob) -> None:
    """Before the first task of a study, loads the engine of every open arm once and makes its first prompt.

    An arm that cannot be worked fails the whole study before anything is measured. If the engines do not fit into
    memory together, the arms take turns by blocks of tasks. Does nothing for other runs and for a study that has begun.
    Raises CannotLoad.
    """
    if job.claim.study_id is None:
        return
    with ctx.database.read() as session:
        study = get_study(session, job.claim.study_id)
        if study.checked_at is not None:
            return
        tasks = [as_plain(row.task) for row in tasks_with_samples(session, study.arms[0].run_id)[:1]]
    arms = [arm for arm in study.arms if arm.run.state in OPEN_RUN_STATES]
    for arm in arms:
        try:
            engine = ready_engine(ctx, arm.run)
            for task in tasks:
                prompt_for(engine, arm.run, task)
        except (CannotLoad, PromptError) as error:
            failure = Failure.MODEL if isinstance(error, CannotLoad) else Failure.REQUEST
            reason = f"arm {arm.position + 1} ({arm.name}): {error}; no arm was started"
            for other in study.runs:
                transitions.fail_run(ctx, other.id, failure, reason)
            raise CannotLoad(reason) from error
    together = ctx.engines.fits(engine_config(arm.run) for arm in arms)
    with ctx.database.session() as session:
        begun = update(Study).where(Study.id == study.id, Study.checked_at.is_(None))
        block_tasks = 1 if together else BLOCK_TASKS
        session.execute(begun.values(checked_at=utcnow(), machine=this_machine(), block_tasks=block_tasks))


def keep_to_device(ctx: Context, job: DecodeJob, engine: Engine) -> None:
    """Interrupts the study of an arm that was begun on another device. Raises Stopped."""
    begun_on, device = job.run.provenance.get("device"), engine.provenance().get("device")
    if job.claim.study_id is not None and begun_on is not None and begun_on != device:
        error = (
            f"{job.run.name} was begun on {begun_on}, and this is {device}: resume the study there, or start a new one"
        )
        service.interrupt(ctx, job.claim.study_id, error)
        raise Stopped
