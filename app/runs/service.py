"""Use cases of runs: submit, cancel, resume, annotate, delete."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from app.annotations.schemas import AnnotationChanges
from app.core.context import Context
from app.core.db.database import call_after_commit
from app.core.db.types import generate_id, get_utc_time
from app.core.errors import BadInputError
from app.core.ports import require_toolchains
from app.core.remote import target as remote
from app.core.states import RunKind
from app.datasets import service as datasets
from app.datasets.models import Dataset, Task
from app.language_models import allowed
from app.language_models.service import require_head, require_infilling, require_model
from app.runs import enqueue, hidden_runs, transitions
from app.runs.configuration import format_shell_command, get_option_columns
from app.runs.models import Run, RunTask
from app.runs.quiet import build_quiet_wait
from app.runs.repository import get_run
from app.runs.schemas import DecodingSpec, RunSpec
from decoding.drafters.registry import parse_drafter

R = TypeVar("R", bound=Run)


def submit(
    ctx: Context,
    spec: RunSpec,
    *,
    command: str = "",
    is_reference: bool = False,
    pinned_worker: str | None = None,
    handover: bool = False,
) -> uuid.UUID:
    """Stores a run with a job row per task and enqueues it. Returns its id.

    `command` repeats the run from a shell (made from the specification if empty). `pinned_worker` keeps other workers
    away. With `handover` no message is sent: the server that owns the database finds it (reaper.enqueue_handed_over).
    With `is_reference` it decodes tasks of another run without a drafter, to compare its speed; no list shows it.

    Raises BadInputError for an unknown model, dataset or task, a model that the operator's settings do not allow, or a
    remote target that does not answer; UnavailableError as in `resolve_tasks`.
    """
    if not is_local(pinned_worker, handover):
        require_allowed_models(ctx, spec.target, spec.drafter)
    dataset, tasks = resolve_tasks(ctx, spec)
    require_answering(ctx, [spec.target], is_local=is_local(pinned_worker, handover))
    run = build_run(
        Run,
        spec,
        tasks,
        dataset_id=dataset.id,
        name=spec.name or build_default_name(spec),
        command=command or format_shell_command(spec),
        quiet=build_quiet_wait(spec.quiet_limit_s),
        pinned_worker=pinned_worker,
        handover=handover,
    )
    if is_reference:
        run.kind = RunKind.HIDDEN
    return store_run(ctx, run)


def resolve_tasks(ctx: Context, spec: RunSpec) -> tuple[Dataset, list[Task]]:
    """The dataset and the selected tasks. Raises BadInputError for an unknown model, dataset or task, UnavailableError
    for tasks in a language whose toolchain is missing."""
    require_models(ctx, spec)
    dataset = datasets.require_dataset(ctx, spec.dataset)
    tasks = datasets.select_tasks(dataset, spec.task_ids, spec.limit, spec.weak)
    require_toolchains(task.language for task in tasks)
    return dataset, tasks


def store_run(ctx: Context, run: Run) -> uuid.UUID:
    """Stores a run made by `build_run` and enqueues it. Returns its id. The caller has called `require_allowed_models`.

    A run that is not graded needs no sandbox worker to prepare it: its caller does that.
    """
    with ctx.database.session() as session:
        session.add(run)
        session.flush()  # gives `graded` its default
        if run.graded and run.enqueued_at is not None:
            call_after_commit(session, enqueue.enqueue_preparation, ctx, run.id)
    return run.id


def build_run(
    run_class: type[R], spec: DecodingSpec, tasks: Sequence[Task], *, handover: bool = False, **columns: Any
) -> R:
    """A run over exactly these tasks, with its id and the other `columns` given, to be stored by the caller.

    With `handover` its `enqueued_at` is None (see `submit`).
    """
    now = get_utc_time()
    return run_class(
        id=generate_id(),
        **get_option_columns(spec) | columns,
        kind=RunKind.EVAL if run_class is Run else RunKind.COMPLETION,
        n_tasks=len(tasks),
        enqueued_at=None if handover else now,
        tasks=[RunTask(task_pk=t.id, position=i, queued_at=now) for i, t in enumerate(tasks)],
    )


def is_local(pinned_worker: str | None, handover: bool) -> bool:
    """Whether a run comes from this machine's command line, whose user may read its files anyway.

    The command works it itself (it is pinned), or hands it over to the server through the database.
    """
    return pinned_worker is not None or handover


def require_allowed_models(ctx: Context, target: str, drafter: str) -> None:
    """Raises BadInputError for a model or endpoint that the operator's settings do not allow for submitted runs."""
    if remote.is_remote(target):
        remote.require_allowed_endpoint(target, ctx.settings.remote_endpoints)
        remote.require_secrets_for_each(ctx.settings.remote_endpoints.split())
        if tokenizer := remote.parse_target(target).tokenizer:
            allowed.require_allowed(tokenizer, "target", ctx.settings.model_patterns)
        return
    allowed.require_allowed(target, "target", ctx.settings.model_patterns)
    draft = parse_drafter(drafter).model
    if draft is not None:
        allowed.require_allowed(draft, "drafter", ctx.settings.model_patterns)


def require_answering(ctx: Context, targets: Iterable[str], *, is_local: bool) -> None:
    """Raises BadInputError where a remote target does not answer. Call it after `require_allowed_models`.

    In the stack only the workers may reach it: there the run fails with the reason.
    """
    endpoints = dict.fromkeys(target for target in targets if remote.is_remote(target))
    remote.require_secrets_for_each(remote.parse_target(target).base_url for target in endpoints)
    if endpoints and (is_local or ctx.settings.embedded):
        from app.core.remote import reachability  # noqa: PLC0415  (loads a HTTP client)

        for target in endpoints:
            reachability.require_answering(target)


def require_models(ctx: Context, spec: DecodingSpec) -> None:
    """Raises BadInputError unless the target and the draft model are known, and can do what the options ask of them.

    In the stack only the workers know their trained drafters: there a run without one fails with the reason. So does an
    infilling run of a target that is not cached here.
    """
    if remote.is_remote(spec.target):
        if tokenizer := remote.parse_target(spec.target).tokenizer:
            require_model(tokenizer, "target")
        return
    require_model(spec.target, "target")
    if spec.prompt_mode == "infill":
        require_infilling(spec.target)
    drafter = parse_drafter(spec.drafter)
    if drafter.model is not None:
        require_model(drafter.model, "drafter")
    if drafter.needs_head and ctx.settings.embedded:
        require_head(spec.target)


def cancel(ctx: Context, run_id: uuid.UUID) -> None:
    """Asks an open run to end (transitions.cancel); its samples are kept. Raises NotFoundError, or ConflictError for a
    run that has ended."""
    transitions.cancel(ctx, run_id)


def resume(ctx: Context, run_id: uuid.UUID, pinned_worker: str | None = None, *, handover: bool = False) -> None:
    """Reopens an ended run to run what it left undone; `handover` as in submit.

    Raises NotFoundError, ConflictError, or BadInputError for models that the operator's settings do not allow.
    """
    with ctx.database.read() as session:
        run = get_run(session, run_id)
    require_allowed_to_resume(ctx, run, pinned_worker, handover=handover)
    transitions.reopen(ctx, run_id, pinned_worker, handover=handover)


def require_allowed_to_resume(ctx: Context, run: Run, pinned_worker: str | None, *, handover: bool) -> None:
    """Raises BadInputError for a run whose models the operator's settings do not allow for submitted runs."""
    if not run.is_imported and not is_local(pinned_worker, handover):
        require_allowed_models(ctx, run.target, run.drafter)


def annotate(ctx: Context, run_id: uuid.UUID, changes: AnnotationChanges) -> None:
    """Changes what people noted on a run. Raises NotFoundError."""
    with ctx.database.session() as session:
        changes.apply_to(get_run(session, run_id))


def delete(ctx: Context, run_id: uuid.UUID) -> None:
    """Removes an ended run with its samples. Raises NotFoundError, or ConflictError for an open run or an arm."""
    hidden_runs.delete_run(ctx, run_id)


def build_default_name(spec: DecodingSpec) -> str:
    """The name of a run that was submitted without one."""
    return f"{spec.target} {spec.drafter} n={spec.n} B={spec.budget_s:g}s"


def check_comparable(reference: Run, other: Run) -> None:
    """Raises BadInputError unless both runs are over the same dataset."""
    over, other_over = reference.dataset, other.dataset
    if (over.name, over.sha256) != (other_over.name, other_over.sha256):
        raise BadInputError(
            f"{reference.name!r} is over {over.name}, {other.name!r} over {other_over.name}: "
            "compare two runs over the same dataset",
            "run",
        )
