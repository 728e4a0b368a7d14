"""How much faster a run was than plain decoding: the same prompts again, without a drafter."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

from app.cli.foreground import Place, UserInterruptError, report
from app.core.context import Context
from app.core.errors import ConflictError, NotFoundError
from app.core.states import RunState, TaskState
from app.runs import figures, service
from app.runs.models import Run
from app.runs.quiet import find_quiet_limit
from app.runs.repository import get_run, tasks_without_texts
from app.runs.schemas import RunOptions, RunSpec


def report_with_comparison(ctx: Context, place: Place, run: Run, json_file: str | None) -> None:
    """Prints and writes an ended run, after the comparison that it lacks. Raises as `foreground.report`, or
    UserInterruptError."""
    interrupted: UserInterruptError | None = None
    try:
        run = compare_with_plain(ctx, place, run)
    except UserInterruptError as error:
        interrupted = error
        with ctx.database.read() as session:
            run = get_run(session, run.id)  # names the baseline
    report(ctx, run, json_file)
    if interrupted is not None:
        raise interrupted


def compare_with_plain(ctx: Context, place: Place, run: Run) -> Run:
    """Makes the comparison that an ended run still lacks, if one was asked for, and stores the ratio with the run.

    Raises UserInterruptError, after which the run keeps its figures and a later call goes on.
    """
    if not lacks_comparison(run):
        return run
    with ctx.database.read() as session:
        ours = tasks_without_texts(session, run.id)
    try:
        plain = _decode_plain(
            ctx, place, run, [t.task.task_id for t in ours if t.state is TaskState.FINISHED][: run.compare_plain]
        )
    except (UserInterruptError, KeyboardInterrupt):  # Ctrl-C between submission and work
        raise UserInterruptError(
            f"interrupted while decoding without drafting: the run itself is finished; `bassline runs resume {run.id}` "
            "goes on with the comparison"
        ) from None
    with ctx.database.session() as session:
        stored = get_run(session, run.id)
        theirs = tasks_without_texts(session, plain.id)
        speedup = figures.speedup(run, figures.n_tokens(ours), plain, figures.n_tokens(theirs))
        _note(stored, speedup_over_plain=speedup, speedup_tasks=sum(t.state is TaskState.FINISHED for t in theirs))
        return stored


def lacks_comparison(run: Run) -> bool:
    """Whether a finished run still waits for the comparison that was asked for."""
    return bool(run.compare_plain) and run.state is RunState.FINISHED and run.measured.speedup_over_plain is None


def _decode_plain(ctx: Context, place: Place, run: Run, task_ids: list[str]) -> Run:
    """The run without a drafter, new or gone on with, once it has ended."""
    started = _find_plain(ctx, run)
    if started is not None:
        if started.state is RunState.FINISHED:
            return started
        plain_id = started.id
        service.resume(ctx, plain_id, **place.options)
    else:
        plain_id = service.submit(ctx, _plain_spec(run, task_ids), is_baseline=True, **place.options)
        with ctx.database.session() as session:
            _note(get_run(session, run.id), plain_run=str(plain_id))
    try:
        return place.work(plain_id)
    except UserInterruptError:
        with contextlib.suppress(ConflictError):  # it has ended; otherwise a server would continue without this command
            service.cancel(ctx, plain_id)
        raise


def _find_plain(ctx: Context, run: Run) -> Run | None:
    """The baseline that an earlier command began; None where there is none, or where it was deleted since."""
    if run.measured.plain_run is None:
        return None
    with ctx.database.read() as session, contextlib.suppress(NotFoundError):
        return get_run(session, uuid.UUID(run.measured.plain_run))
    return None


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


def _note(run: Run, **figures: Any) -> None:
    run.figures = run.measured.model_copy(update=figures)
