"""How much faster a run was than plain decoding: some of its prompts again, without a drafter."""

from __future__ import annotations

import contextlib

from app.cli.foreground import Place, UserInterruptError
from app.core.context import Context
from app.core.errors import ConflictError
from app.core.states import RunState, TaskState
from app.runs import figures, service
from app.runs.models import Run
from app.runs.quiet import find_quiet_limit
from app.runs.repository import get_run, tasks_without_texts
from app.runs.schemas import RunOptions, RunSpec


def compare_with_plain(ctx: Context, place: Place, run: Run, n_prompts: int) -> Run:
    """Decodes prompts of a finished run again, and returns it with the ratio; a run that ended otherwise as it is.

    Raises UserInterruptError, after which the run keeps its figures.
    """
    if run.state is not RunState.FINISHED:
        return run
    with ctx.database.read() as session:
        ours = tasks_without_texts(session, run.id)
    task_ids = [task.task.task_id for task in ours if task.state is TaskState.FINISHED][:n_prompts]
    plain_id = service.submit(ctx, _plain_spec(run, task_ids), is_baseline=True, **place.options)
    with ctx.database.session() as session:
        _note(get_run(session, run.id), plain_run=str(plain_id))
    try:
        plain = place.work(plain_id)
    except (UserInterruptError, KeyboardInterrupt):
        with contextlib.suppress(ConflictError):  # it has ended; otherwise a server would continue without this command
            service.cancel(ctx, plain_id)
        raise UserInterruptError(
            f"interrupted while decoding without drafting: the run itself is finished; `bassline runs show {run.id}` "
            "shows it"
        ) from None
    with ctx.database.session() as session:
        stored = get_run(session, run.id)
        theirs = tasks_without_texts(session, plain.id)
        speedup = figures.speedup(run, figures.n_tokens(ours), plain, figures.n_tokens(theirs))
        _note(stored, speedup_over_plain=speedup, speedup_tasks=sum(t.state is TaskState.FINISHED for t in theirs))
        return stored


def _plain_spec(run: Run, task_ids: list[str]) -> RunSpec:
    options = {name: getattr(run, name) for name in RunOptions.model_fields}
    changes = {
        "drafter": "none",
        "time_limit_s": None,
        "quiet_limit_s": find_quiet_limit([run]),
        "dataset": run.dataset.name,
        "task_ids": tuple(task_ids),
        "name": f"{run.name} (plain)",
    }
    return RunSpec(**options | changes)


def _note(run: Run, **values: object) -> None:
    run.figures = run.measured.model_copy(update=values)
