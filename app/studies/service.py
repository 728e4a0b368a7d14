"""Use cases of studies: submit, cancel, resume, annotate, delete."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from app.annotations.schemas import AnnotationChanges
from app.core.context import Context
from app.core.db.database import call_after_commit
from app.core.db.types import generate_id
from app.core.errors import BadInputError, ConflictError
from app.core.remote.target import is_remote, parse_target, require_secrets_for_each
from app.core.states import OPEN_RUN_STATES
from app.datasets.models import Dataset, Task
from app.runs import enqueue, hidden_runs, transitions
from app.runs import service as runs
from app.runs.configuration import format_shell_command
from app.runs.models import Run
from app.runs.quiet import build_quiet_wait
from app.runs.repository import lock_run
from app.runs.schemas import RunSpec, TaskChoice
from app.studies import files, schedule
from app.studies.models import ARM, Study, StudyArm
from app.studies.repository import get_study, lock_study
from app.studies.schemas import StudySpec, name_arm_in_errors

STARTED_ELSEWHERE = (
    "the study was started on another machine ({cpu}, {cpu_count} CPUs), and timings of two machines do not compare: "
    "resume it there, or start a new one"
)


def submit(
    ctx: Context,
    spec: StudySpec,
    *,
    command: str = "",
    pinned_worker: str | None = None,
    handover: bool = False,
    study_id: uuid.UUID | None = None,
    for_audit: bool = False,
) -> uuid.UUID:
    """Stores a study with a run for each arm, and enqueues them. Returns its id.

    Everything is checked before anything is stored: raises BadInputError, naming the arm and the field. The arguments
    are as in app.runs.service.submit; `command` repeats the study, by default one with all its options; `study_id` is
    its id where that was chosen before. An audit's arms may have one configuration, and those that this machine decodes
    share batches among tasks, because an audit asks for texts and not for times.
    """
    resolved = resolve_spec(ctx, spec, for_audit=for_audit)
    arms = list(zip(spec.list_names(), resolved.runs, strict=True))
    _require_targets(ctx, arms, is_local=runs.is_local(pinned_worker, handover))
    study = Study(
        id=study_id or generate_id(),
        name=spec.name or spec.build_default_name(),
        dataset_id=resolved.dataset.id,
        budget_s=spec.budget_s,
        seed=spec.seed,
        race=spec.race,
        command=command or files.format_study_command(spec),
    )
    for position, (name, run_spec) in enumerate(arms):
        run = runs.build_run(
            Run,
            run_spec,
            resolved.tasks,
            policy=ARM,
            dataset_id=resolved.dataset.id,
            name=run_spec.name,
            command=format_shell_command(run_spec),
            quiet=build_quiet_wait(run_spec.quiet_limit_s),
            pinned_worker=pinned_worker,
            handover=handover,
        )
        study.arms.append(StudyArm(position=position, name=name, run=run))
    with ctx.database.session() as session:
        session.add(study)
        if not handover:
            for arm in study.arms:
                call_after_commit(session, enqueue.enqueue_preparation, ctx, arm.run.id)
    return study.id


def _require_targets(ctx: Context, arms: Sequence[tuple[str, RunSpec]], *, is_local: bool) -> None:
    """Raises BadInputError that names the arm whose models are not allowed or whose server does not answer."""
    if not is_local:
        for number, (name, spec) in enumerate(arms, start=1):
            with name_arm_in_errors(number, name):
                runs.require_allowed_models(ctx, spec.target, spec.drafter)
    require_secrets_for_each(parse_target(spec.target).base_url for _, spec in arms if is_remote(spec.target))
    for number, (name, spec) in enumerate(arms, start=1):
        with name_arm_in_errors(number, name):
            if not ctx.servers.is_started_here(spec.target):
                runs.require_answering(ctx, [spec.target], is_local=is_local)


class ResolvedStudy(NamedTuple):
    """What a study that was asked for would measure: the run of each arm, the dataset, and the selected tasks."""

    runs: list[RunSpec]
    dataset: Dataset
    tasks: list[Task]


def resolve_spec(ctx: Context, spec: StudySpec, *, for_audit: bool = False) -> ResolvedStudy:
    """Checks all arms and finds the tasks. Raises BadInputError that names the arm and the field."""
    names, specs = spec.list_names(), spec.build_run_specs()
    if for_audit:
        specs = [one.model_copy(update={"throughput": not is_remote(one.target)}) for one in specs]
    configurations = [one.model_dump(exclude={"name"}) for one in specs]
    selected: tuple[Dataset, list[Task]] | None = None  # the same for all arms, which share the choice of tasks
    for i, (name, one) in enumerate(zip(names, specs, strict=True)):
        with name_arm_in_errors(i + 1, name, shared=TaskChoice.model_fields):
            if not for_audit:
                _require_new("configuration", configurations[i], configurations[:i])
            _require_new("name", name, names[:i])
            selected = runs.resolve_tasks(ctx, one)
    assert selected is not None
    return ResolvedStudy(specs, *selected)


def _require_new(what: str, value: object, of_earlier_arms: Sequence[object]) -> None:
    """Raises BadInputError that names the earlier arm with the same value, if there is one."""
    if value in of_earlier_arms:
        number = of_earlier_arms.index(value) + 1
        raise BadInputError(f"its {what} is the same as in arm {number}: change it, or leave it out")


def cancel(ctx: Context, study_id: uuid.UUID) -> None:
    """Ends every arm; samples are kept. Raises NotFoundError, or ConflictError for a study that has ended."""
    with ctx.database.read() as session:
        study = get_study(session, study_id)
    if study.state not in OPEN_RUN_STATES:
        raise ConflictError(f"the study is {study.state}: only a queued or running one can be cancelled")
    for run in study.runs:
        with contextlib.suppress(ConflictError):  # this arm has ended
            transitions.cancel(ctx, run.id)


def interrupt(ctx: Context, study_id: uuid.UUID, error: str) -> bool:
    """Stops every arm that is open; `study resume` can finish them. True if one was open."""
    with ctx.database.read() as session:
        study = get_study(session, study_id)
    stopped = [run for run in study.runs if transitions.interrupt(ctx, run.id, error)]
    return bool(stopped)


def resume(ctx: Context, study_id: uuid.UUID, pinned_worker: str | None = None, *, handover: bool = False) -> None:
    """Reopens the arms that have ended with tasks left, but for those that a race has dropped.

    Raises NotFoundError, BadInputError for models that are not allowed, ConflictError for a study that is open or has
    nothing left to do.
    """
    with ctx.database.session() as session:
        lock_study(session, study_id)  # of two concurrent calls, the second finds it open
        study = get_study(session, study_id)
        if study.state in OPEN_RUN_STATES:
            raise ConflictError(f"the study is {study.state}: only one that has ended can be resumed")
        if study.measured_elsewhere:
            raise ConflictError("the study was measured elsewhere: start one of your own with the same arms")
        if (pinned_worker or ctx.database.is_sqlite) and not schedule.may_run_here(study):
            raise ConflictError(STARTED_ELSEWHERE.format(**study.machine))
        open_arms = [arm for arm in study.arms if arm.dropped_at is None]
        require_secrets_for_each(
            parse_target(arm.run.target).base_url for arm in open_arms if is_remote(arm.run.target)
        )
        for arm in open_arms:
            runs.require_allowed_to_resume(ctx, arm.run, pinned_worker, handover=handover)
        resumed = 0
        for arm in open_arms:
            with contextlib.suppress(ConflictError):  # this arm has finished
                transitions.reopen_in_session(ctx, session, arm.run_id, pinned_worker, handover=handover)
                resumed += 1
        if not resumed:
            raise ConflictError("the study has finished all its tasks: nothing is left to resume")


def set_quiet_limit(ctx: Context, study_id: uuid.UUID, limit_s: float | None) -> None:
    """From its next turn, the study waits for a quiet machine, at most `limit_s` seconds in all; None: no waiting.

    Raises NotFoundError.
    """
    with ctx.database.session() as session:
        for run in get_study(session, study_id).runs:
            run.quiet = None if is_remote(run.target) else build_quiet_wait(limit_s)


def annotate(ctx: Context, study_id: uuid.UUID, changes: AnnotationChanges) -> None:
    """Changes what people noted on a study. Raises NotFoundError.

    The runs of its arms are archived with it, and come back with it.
    """
    with ctx.database.session() as session:
        lock_study(session, study_id)
        study = get_study(session, study_id)
        changes.apply_to(study)
        if changes.archived is not None:
            for run in study.runs:
                run.archived = changes.archived


def delete(ctx: Context, study_id: uuid.UUID) -> None:
    """Removes an ended study with the runs of its arms. Raises NotFoundError, or ConflictError while an arm is open."""
    with ctx.database.session() as session:
        lock_study(session, study_id)
        study = get_study(session, study_id)
        for run in study.runs:
            lock_run(session, run.id)
        if study.state in OPEN_RUN_STATES:
            raise ConflictError(f"the study is {study.state}: cancel it before you delete it")
        job_id = hidden_runs.hide_runs(ctx, session, study.runs)
        session.delete(study)
    hidden_runs.finish_deletion(ctx, job_id)
