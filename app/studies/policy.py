"""Execution rules for the arms of studies: they take turns within the study, which is scheduled as one run.

In a race, an arm that is worse than another at every budget of interest is dropped, so that time goes to the rest.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import structlog
from sqlalchemy import ColumnElement, false, select, update
from sqlalchemy.orm import Session

from app.background.jobs import send_if_waiting
from app.core.context import Context
from app.core.db.database import call_after_commit, execute_change
from app.core.db.types import get_utc_time
from app.core.provenance import describe_machine
from app.core.remote.target import is_remote
from app.core.states import OPEN_RUN_STATES, Failure, WorkStep
from app.datasets.service import to_evaluation_task
from app.jobs.job import CannotLoadError, WorkStoppedError
from app.jobs.reaper import recover_each
from app.jobs.work.decode_job import build_task_prompt, prepare_engine
from app.runs import transitions
from app.runs.configuration import build_engine_config
from app.runs.models import Run
from app.runs.policy import QUEUES, EvaluationPolicy, PendingWork, has_unpinned_work
from app.runs.repository import load_tasks_with_samples
from app.studies import schedule, service
from app.studies.analysis import compare_named_runs
from app.studies.audit import is_audit
from app.studies.models import ARM, Study, StudyArm
from app.studies.progress import compute_study_progress
from app.studies.repository import get_study, get_study_id
from app.studies.schedule import may_run_here
from app.workers.service import compute_silence_limit
from evaluation.prompting import PromptError
from evaluation.studies.racing import Drop, find_dropped, list_budgets_of_interest

BLOCK_TASKS = 8  # for which an arm keeps its engine, where the engines of a study are not loaded together
LOOK_EVERY = 4  # tasks between two tests; the test is valid after any number of tasks
log = structlog.get_logger(__name__)


def try_engines(ctx: Context, study_id: uuid.UUID) -> None:
    """Before the first task of a study, loads the engine of every open arm once and makes its first prompt.

    An arm that cannot run fails the whole study before anything is measured; one on another server
    fails alone, except in an audit. If the engines do not fit into memory together, or their servers run one at a
    time, the arms take turns by blocks of tasks. Does nothing for a study that has begun. Raises CannotLoadError,
    WorkStoppedError.
    """
    with ctx.database.read() as session:
        study = get_study(session, study_id)
        if study.checked_at is not None:
            return
        tasks = [to_evaluation_task(row.task) for row in load_tasks_with_samples(session, study.arms[0].run_id)[:1]]
    arms = [arm for arm in study.arms if arm.run.state in OPEN_RUN_STATES]
    working: list[StudyArm] = []
    for arm in arms:
        try:
            engine = prepare_engine(ctx, arm.run)
            for task in tasks:
                build_task_prompt(engine, arm.run, task)
        except (CannotLoadError, PromptError) as error:
            failure = Failure.MODEL if isinstance(error, CannotLoadError) else Failure.REQUEST
            if _fails_alone(study, arm):
                transitions.fail_run(ctx, arm.run_id, failure, str(error))
                continue
            reason = f"arm {arm.position + 1} ({arm.name}): {error}; no arm was started"
            for other in study.runs:
                transitions.fail_run(ctx, other.id, failure, reason)
            raise CannotLoadError(reason) from error
        working.append(arm)
    together = not ctx.servers.one_at_a_time and ctx.engines.fits(build_engine_config(arm.run) for arm in working)
    with ctx.database.session() as session:
        begun = update(Study).where(Study.id == study.id, Study.checked_at.is_(None))
        block_tasks = 1 if together else BLOCK_TASKS
        session.execute(begun.values(checked_at=get_utc_time(), machine=describe_machine(), block_tasks=block_tasks))


def _fails_alone(study: Study, arm: StudyArm) -> bool:
    """Whether a study goes on without the arm: its server is another program, and no audit needs all arms."""
    return is_remote(arm.run.target) and not is_audit(study)


def require_open(ctx: Context, run_id: uuid.UUID) -> None:
    """Raises WorkStoppedError if the arm has failed meanwhile."""
    with ctx.database.read() as session:
        if session.get_one(Run, run_id).state not in OPEN_RUN_STATES:
            raise WorkStoppedError


def require_first_device(ctx: Context, study_id: uuid.UUID, run: Run) -> None:
    """Interrupts the study of an arm that was begun on another device. Raises WorkStoppedError."""
    begun_on, device = run.provenance.get("device"), prepare_engine(ctx, run).get_provenance().get("device")
    if begun_on is not None and begun_on != device:
        error = f"{run.name} was begun on {begun_on}, and this is {device}: resume the study there, or start a new one"
        service.interrupt(ctx, study_id, error)
        raise WorkStoppedError


class ArmPolicy(EvaluationPolicy):
    """A study has at most one message for decoding, for the job whose turn it is; what ends a job sends the next one.

    Arms are graded like any other run.
    """

    name = ARM

    def list_pending_work(self, ctx: Context, session: Session, step: WorkStep) -> Sequence[PendingWork]:
        """Returns one job to decode for each study, since a study takes its turn as one run."""
        if step is not WorkStep.DECODE:
            return super().list_pending_work(ctx, session, step)
        waiting = select(StudyArm.study_id).join(StudyArm.run).where(has_unpinned_work(step)).distinct()
        jobs = {
            study_id: schedule.find_next_job(session, study_id, here_only=True) for study_id in session.scalars(waiting)
        }
        return [PendingWork(key, job.run, run_task_id=job.id) for key, job in jobs.items() if job is not None]

    def iterate_candidates(
        self, ctx: Context, run_id: uuid.UUID, run_task_id: uuid.UUID, step: WorkStep
    ) -> Iterator[uuid.UUID]:
        """Yields the job whose turn it is in the study, again after each lost race for it."""
        if step is not WorkStep.DECODE:
            yield run_task_id
            return
        study_id = _read_study_id(ctx, run_id)
        while True:
            with ctx.database.read() as session:
                job = schedule.find_next_job(session, study_id)
            if job is None:
                return
            yield job.id

    def build_waiting_condition(self, queue: str) -> ColumnElement[bool]:
        """Excludes decoding, whose messages `recover` resends."""
        return false() if queue == QUEUES[WorkStep.DECODE] else super().build_waiting_condition(queue)

    def send_messages(self, ctx: Context, run_id: uuid.UUID, step: WorkStep, run_task_ids: Sequence[uuid.UUID]) -> None:
        """Sends messages for grading alone: `after_step` sends the one for decoding."""
        if step is not WorkStep.DECODE:
            super().send_messages(ctx, run_id, step, run_task_ids)

    def on_start(self, ctx: Context, run: Run) -> None:
        """Loads the engine of every arm once, and keeps the study on the device of its first task."""
        study_id = _read_study_id(ctx, run.id)
        try_engines(ctx, study_id)
        require_open(ctx, run.id)
        require_first_device(ctx, study_id, run)

    def list_runs_sharing_wait(self, session: Session, run_id: uuid.UUID) -> Sequence[uuid.UUID]:
        """Returns the runs of all arms, because they wait for a quiet machine together."""
        study = select(StudyArm.study_id).where(StudyArm.run_id == run_id).scalar_subquery()
        return session.scalars(select(StudyArm.run_id).where(StudyArm.study_id == study)).all()

    def after_step(self, ctx: Context, run_id: uuid.UUID) -> None:
        """Drops arms that have lost the race, and sends the message for the next job of the study."""
        study_id = _read_study_id(ctx, run_id)
        drop_losers(ctx, study_id)
        schedule.send_next(ctx, study_id)

    def on_run_end(self, ctx: Context, session: Session, run: Run) -> None:
        """Tells a job that waits for the study, whose id is its key, that the last arm has ended."""
        study_id = get_study_id(session, run.id)
        arms = select(StudyArm.run_id).where(StudyArm.study_id == study_id)
        if session.scalar(select(Run.id).where(Run.id.in_(arms), Run.state.in_(OPEN_RUN_STATES)).limit(1)) is None:
            call_after_commit(session, send_if_waiting, ctx, str(study_id))

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
            elsewhere = {
                study.id: service.STARTED_ELSEWHERE.format(**study.machine)
                for study in studies
                if not may_run_here(study)
            }
            recover_each(elsewhere, lambda study_id: service.interrupt(ctx, study_id, elsewhere[study_id]))
        recover_each(silent, lambda study_id: schedule.send_next(ctx, study_id))


def _is_silent(ctx: Context, session: Session, study_id: uuid.UUID) -> bool:
    """Whether a job waits whose message was last sent so long ago that it may be lost."""
    job = schedule.find_next_job(session, study_id)
    if job is None:
        return False
    return job.enqueued_at is None or job.enqueued_at < get_utc_time() - compute_silence_limit(ctx)


def _read_study_id(ctx: Context, run_id: uuid.UUID) -> uuid.UUID:
    with ctx.database.read() as session:
        return get_study_id(session, run_id)


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
