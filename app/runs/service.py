"""Use cases of runs: submit, cancel, resume, delete. Rows first, messages after COMMIT."""

from __future__ import annotations

import shlex
import uuid

from app.context import Context
from app.datasets import service as datasets
from app.datasets.models import Dataset, Task
from app.db.types import utcnow
from app.errors import BadInput
from app.language_models import allowed
from app.language_models.service import require_model
from app.remote import target as remote
from app.runs import deletion, enqueue, transitions
from app.runs.models import Run, RunTask
from app.runs.repository import get_run
from app.runs.schemas import DecodingSpec, RunSpec
from app.states import RunKind
from decoding.drafters.registry import parse_drafter


def submit(
    ctx: Context,
    spec: RunSpec,
    *,
    command: str = "",
    kind: RunKind = RunKind.EVAL,
    pinned_worker: str | None = None,
    ring: bool = True,
) -> uuid.UUID:
    """Stores a run with a job row per task, then rings. Returns its id.

    Raises BadInput for an unknown model, dataset or task, and for a model it may not name. `command` is how to repeat
    the run from a shell (made from the specification if empty); `pinned_worker` keeps other workers away. Without
    `ring` the run waits for the process that has the database, which looks for such runs (reaper.ring_handed_over).
    """
    if not is_local(pinned_worker, ring):
        require_allowed(ctx, spec.target, spec.drafter)
    dataset, tasks = check(ctx, spec)
    return submit_tasks(
        ctx,
        spec,
        dataset.id,
        tasks,
        name=spec.name or default_name(spec),
        command=command or shell_command(spec),
        kind=kind,
        pinned_worker=pinned_worker,
        time_limit_s=spec.time_limit_s,
        throughput=spec.throughput,
        ring=ring,
    )


def check(ctx: Context, spec: RunSpec) -> tuple[Dataset, list[Task]]:
    """The dataset and the tasks meant. Raises BadInput for an unknown model, dataset or task."""
    require_models(spec)
    dataset = datasets.require(ctx, spec.dataset)
    return dataset, datasets.select_tasks(dataset, spec.task_ids, spec.limit)


def submit_tasks(
    ctx: Context,
    spec: DecodingSpec,
    dataset_id: uuid.UUID,
    tasks: list[Task],
    *,
    name: str,
    command: str,
    kind: RunKind,
    pinned_worker: str | None = None,
    time_limit_s: float | None = None,
    throughput: bool = False,
    graded: bool = True,
    ring: bool = True,
) -> uuid.UUID:
    """Stores a run over exactly these tasks and rings for it. The caller has asked `require_allowed`.

    A run that is not graded needs no sandbox worker to prepare it: its caller does.
    """
    now = utcnow()
    run = Run(
        **spec.model_dump(include=set(DecodingSpec.model_fields)),
        name=name,
        kind=kind,
        dataset_id=dataset_id,
        time_limit_s=time_limit_s,
        throughput=throughput,
        n_tasks=len(tasks),
        graded=graded,
        pinned_worker=pinned_worker,
        command=command,
        rung_at=now if ring else None,
        tasks=[RunTask(task_pk=t.id, position=i, queued_at=now) for i, t in enumerate(tasks)],
    )
    with ctx.database.session() as session:
        session.add(run)
    if ring and graded:
        enqueue.ring_prepare(run.id)
    return run.id


def is_local(pinned_worker: str | None, ring: bool) -> bool:
    """Whether a run comes from this machine's command line, whose user may read its files anyway.

    It is worked by the command itself (pinned to it), or handed to the server through the database (without `ring`).
    """
    return pinned_worker is not None or not ring


def require_allowed(ctx: Context, target: str, drafter: str) -> None:
    """Raises BadInput for models or endpoints that the operator's settings keep from submitted runs."""
    if remote.is_remote(target):
        remote.require_allowed(target, ctx.settings.remote_endpoints)
        return
    allowed.require_allowed(target, "target", ctx.settings.model_patterns)
    draft = parse_drafter(drafter).model
    if draft is not None:
        allowed.require_allowed(draft, "drafter", ctx.settings.model_patterns)


def require_models(spec: DecodingSpec) -> None:
    """Raises BadInput if the target or the draft model is not one that can be had."""
    if remote.is_remote(spec.target):
        remote.parse(spec.target)
        return
    require_model(spec.target, "target")
    draft = parse_drafter(spec.drafter).model
    if draft is not None:
        require_model(draft, "drafter")


def cancel(ctx: Context, run_id: uuid.UUID) -> None:
    """See ending.cancel."""
    transitions.cancel(ctx, run_id)


def resume(ctx: Context, run_id: uuid.UUID, pinned_worker: str | None = None, *, ring: bool = True) -> None:
    """Works what an ended run left undone; `ring` as in submit.

    Raises NotFound, Conflict, or BadInput for models it may not name.
    """
    with ctx.database.read() as session:
        run = get_run(session, run_id)
    if run.kind is not RunKind.IMPORTED and not is_local(pinned_worker, ring):  # of imports a model's name is only said
        require_allowed(ctx, run.target, run.drafter)
    transitions.reopen(ctx, run_id, pinned_worker, ring=ring)
    if ring:
        enqueue.ring_prepare(run_id)


def delete(ctx: Context, run_id: uuid.UUID) -> None:
    """See deletion.delete."""
    deletion.delete(ctx, run_id)


def default_name(spec: DecodingSpec) -> str:
    """A name that tells runs apart in a list."""
    return f"{spec.target} {spec.drafter} n={spec.n} B={spec.budget_s:g}s"


def shell_command(spec: RunSpec) -> str:
    """The `bassline eval` that repeats the run."""
    words = ["bassline", "eval"]
    for field, value in spec.model_dump(exclude_defaults=True).items():
        if field == "task_ids":
            words += [part for task_id in value for part in ("--task", task_id)]
        elif value is True:
            words.append("--" + field.replace("_", "-"))
        else:
            words += ["--" + field.removesuffix("_s").replace("_", "-"), str(value)]
    return shlex.join(words)


def check_comparable(reference: Run, other: Run) -> None:
    """Raises BadInput unless both runs are over the same dataset."""
    if reference.dataset_id != other.dataset_id:
        raise BadInput(
            f"{reference.name!r} is over {reference.dataset.name}, {other.name!r} over {other.dataset.name}: "
            "compare two runs over the same dataset",
            "run",
        )
