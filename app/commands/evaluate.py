"""`bassline eval`."""

from __future__ import annotations

import contextlib
import shlex
import sys
from typing import Any

import click

from app.commands import common, foreground, handover
from app.commands.options import parse_options, spec_options
from app.commands.quiet import QuietChoice, quiet_flag
from app.context import Context
from app.errors import BadInputError, ConflictError
from app.runs import figures, service
from app.runs.models import Run
from app.runs.repository import get_run, tasks_without_texts
from app.runs.schemas import RunSpec
from app.states import RunState, TaskState


@click.command("eval")
@spec_options(RunSpec)
@click.option(
    "--compare-plain",
    type=int,
    default=0,
    metavar="K",
    help="then decode K of the same prompts without drafting, and show the speed-up",
)
@quiet_flag("do not wait")
@common.json_option
def evaluate(json_file: str | None, compare_plain: int, wait_for_quiet: bool | None, **options: Any) -> None:
    """Create a run and finish it in this process, or in `bassline serve` while that has the database.

    Example:
        bassline eval --target qwen2.5-coder-0.5b --limit 5 --n 8 --budget 10
        bassline eval --target smollm2-135m --task HumanEval/0 --temperature 0 --n 1 --json -
    """
    limit_s = QuietChoice(wait_for_quiet, options["quiet_limit_s"]).get_limit_s(default=False)
    spec = parse_options(RunSpec, options | {"quiet_limit_s": limit_s})
    if compare_plain < 0:
        raise BadInputError(f"compare-plain is {compare_plain}: give how many prompts, 0 or more", "compare_plain")
    if compare_plain and spec.throughput:
        raise BadInputError(
            "compare-plain compares tasks decoded one at a time: leave it out, or --throughput", "compare_plain"
        )
    ctx = common.opened_context()
    service.check(ctx, spec)
    ctx.make_grader()  # without a sandbox, fail before decoding
    cut: foreground.UserInterruptError | None = None
    with foreground.workers(ctx, "eval") as place:
        spec = handover.prepare_for_server(ctx, spec) if place.server else spec
        command = shlex.join(["bassline", *sys.argv[1:]])
        run = place.work(service.submit(ctx, spec, command=command, **place.options))
        if compare_plain and run.state is RunState.FINISHED:
            try:
                run = _with_speedup(ctx, place, run, spec, compare_plain)
            except (foreground.UserInterruptError, KeyboardInterrupt):  # Ctrl-C between submission and work
                cut = foreground.UserInterruptError(
                    "interrupted while decoding without drafting: the run itself is finished"
                )
    foreground.report(ctx, run, json_file)
    if cut is not None:
        raise cut


def _with_speedup(ctx: Context, place: foreground.Place, run: Run, spec: RunSpec, k: int) -> Run:
    """Decodes the first k finished prompts again without a drafter and stores the ratio with the run.

    Raises UserInterruptError, after which the run keeps its figures.
    """
    with ctx.database.read() as session:
        ours = tasks_without_texts(session, run.id)
    same = tuple(t.task.task_id for t in ours if t.state is TaskState.FINISHED)[:k]
    changes = {"drafter": "none", "task_ids": same, "limit": None, "time_limit_s": None, "name": f"{run.name} (plain)"}
    plain_spec = spec.model_copy(update=changes)
    plain_id = service.submit(ctx, plain_spec, is_baseline=True, **place.options)
    with ctx.database.session() as session:
        _note(get_run(session, run.id), plain_run=str(plain_id))
    try:
        plain = place.work(plain_id)
    except foreground.UserInterruptError:
        with contextlib.suppress(
            ConflictError
        ):  # otherwise a server would continue, and the ratio would never be stored
            service.cancel(ctx, plain_id)
        raise
    with ctx.database.session() as session:
        stored = get_run(session, run.id)
        theirs = tasks_without_texts(session, plain.id)
        speedup = figures.speedup(run, figures.n_tokens(ours), plain, figures.n_tokens(theirs))
        _note(stored, speedup_over_plain=speedup, speedup_tasks=len(same))
        return stored


def _note(run: Run, **figures: Any) -> None:
    run.figures = run.measured.model_copy(update=figures)
