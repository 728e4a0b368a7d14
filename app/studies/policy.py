"""How the arms of studies are worked: they take turns inside their study, and a study takes its turn as one run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, false, select
from sqlalchemy.orm import Session

from app.core.context import Context
from app.core.db.types import utcnow
from app.core.states import OPEN_RUN_STATES, Step
from app.jobs.reaper import recover_each
from app.runs.evaluations import QUEUES, EvaluationPolicy, takes_turns
from app.runs.models import Run, RunTask
from app.runs.policy import Waiting
from app.studies import schedule, service, starting
from app.studies.models import ARM, Study, StudyArm
from app.studies.schedule import is_here
from app.workers.service import silence_limit


class ArmPolicy(EvaluationPolicy):
    """A study has at most one message for decoding, for the job whose turn it is; what ends a job sends the next one.

    Graded are arms like any other runs.
    """

    name = ARM

    def eligible(self, ctx: Context, session: Session, step: Step) -> Sequence[Waiting]:
        """Returns one job to decode for each study, since a study takes its turn as one run."""
        if step is not Step.DECODE:
            return super().eligible(ctx, session, step)
        waiting = select(StudyArm.study_id).join(StudyArm.run).where(takes_turns(step)).distinct()
        jobs = {study_id: schedule.next_job(session, study_id, here_only=True) for study_id in session.scalars(waiting)}
        return [Waiting(key, job.run, run_task_id=job.run_task_id) for key, job in jobs.items() if job is not None]

    def next(self, ctx: Context, run_id: uuid.UUID, run_task_id: uuid.UUID, step: Step) -> Iterator[uuid.UUID]:
        """Yields the job whose turn it is in the study, again after each lost race for it."""
        if step is not Step.DECODE:
            yield run_task_id
            return
        study_id = _study_of(ctx, run_id)
        while True:
            with ctx.database.read() as session:
                job = schedule.next_job(session, study_id)
            if job is None:
                return
            yield job.run_task_id

    def waits_in(self, queue: str) -> ColumnElement[bool]:
        """Leaves decoding out: `recover` sends its message again."""
        return false() if queue == QUEUES[Step.DECODE] else super().waits_in(queue)

    def send(self, ctx: Context, run_id: uuid.UUID, step: Step, run_task_ids: Sequence[uuid.UUID]) -> None:
        """Sends messages for grading alone: `on_end` sends the one for decoding."""
        if step is not Step.DECODE:
            super().send(ctx, run_id, step, run_task_ids)

    def on_start(self, ctx: Context, run: Run) -> None:
        """Loads the engine of every arm once, and keeps the study on the device of its first task."""
        study_id = _study_of(ctx, run.id)
        starting.try_engines(ctx, study_id)
        starting.keep_to_device(ctx, study_id, run)

    def runs_sharing_wait(self, session: Session, run_id: uuid.UUID) -> Sequence[uuid.UUID]:
        """Returns the runs of all arms: what disturbs one turn would disturb the next."""
        study = select(StudyArm.study_id).where(StudyArm.run_id == run_id).scalar_subquery()
        return session.scalars(select(StudyArm.run_id).where(StudyArm.study_id == study)).all()

    def on_end(self, ctx: Context, run_id: uuid.UUID) -> None:
        """Drops arms that have lost the race, and sends the message for the next job of the study."""
        from app.studies import race  # noqa: PLC0415 (imports scipy, which takes a second)

        study_id = _study_of(ctx, run_id)
        race.drop_losers(ctx, study_id)
        schedule.send_next(ctx, study_id)

    def recover(self, ctx: Context, ours: ColumnElement[bool]) -> None:
        """Sends the message of each study again that may have lost it.

        In the embedded form it interrupts studies that were begun on another machine, since no worker of that one will
        come.
        """
        with ctx.database.read() as session:
            of_open_arms = select(StudyArm.study_id).join(StudyArm.run).where(Run.state.in_(OPEN_RUN_STATES), ours)
            studies = session.scalars(select(Study).where(Study.id.in_(of_open_arms))).all()
            silent = [study.id for study in studies if _is_silent(ctx, session, study.id)]
        if ctx.database.is_sqlite:
            elsewhere = {study.id: service.ELSEWHERE.format(**study.machine) for study in studies if not is_here(study)}
            recover_each(elsewhere, lambda study_id: service.interrupt(ctx, study_id, elsewhere[study_id]))
        recover_each(silent, lambda study_id: schedule.send_next(ctx, study_id))


def _is_silent(ctx: Context, session: Session, study_id: uuid.UUID) -> bool:
    """Whether a job waits whose message was last sent so long ago that it may be lost."""
    job = schedule.next_job(session, study_id)
    if job is None:
        return False
    sent_at = session.scalar(select(RunTask.enqueued_at).where(RunTask.id == job.run_task_id))
    return sent_at is None or sent_at < utcnow() - silence_limit(ctx)


def _study_of(ctx: Context, run_id: uuid.UUID) -> uuid.UUID:
    with ctx.database.read() as session:
        return session.scalars(select(StudyArm.study_id).where(StudyArm.run_id == run_id)).one()
