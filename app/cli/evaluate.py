"""`bassline eval`, and how much faster a run was than plain decoding."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from app.cli import common, foreground, handover
from app.cli.foreground import ExecutionSite, UserInterruptError
from app.cli.options import QuietChoice, add_quiet_flag, add_spec_options, parse_options
from app.core.context import Context
from app.core.errors import BadInputError, ConflictError
from app.core.remote.target import add_extra_body, add_tokenizer
from app.core.states import RunState, TaskState
from app.runs import figures, service
from app.runs.models import Run
from app.runs.quiet import find_quiet_limit
from app.runs.repository import get_run, load_measured_tasks
from app.runs.schemas import RunOptions, RunSpec


def compare_with_plain(ctx: Context, site: ExecutionSite, run: Run, n_prompts: int) -> Run:
    """Decodes prompts of a finished run again, and returns it with the ratio; a run that ended otherwise as it is.

    Raises UserInterruptError, after which the run keeps its figures.
    """
    if run.state is not RunState.FINISHED:
        return run
    with ctx.database.read() as session:
        ours = load_measured_tasks(session, run.id)
    task_ids = [task.task.task_id for task in ours if task.state is TaskState.FINISHED][:n_prompts]
    plain_id = service.submit(ctx, _build_plain_spec(run, task_ids), is_reference=True, **site.options)
    with ctx.database.session() as session:
        _update_figures(get_run(session, run.id), plain_run=str(plain_id))
    try:
        plain = site.wait_for_run(plain_id)
    except (UserInterruptError, KeyboardInterrupt):
        with contextlib.suppress(ConflictError):  # it has ended; otherwise a server would continue without this command
            service.cancel(ctx, plain_id)
        raise UserInterruptError(
            f"interrupted while decoding without drafting: the run itself is finished; `bassline runs show {run.id}` "
            "shows it"
        ) from None
    with ctx.database.session() as session:
        stored = get_run(session, run.id)
        theirs = load_measured_tasks(session, plain.id)
        speedup = figures.compute_speedup(run, figures.count_tokens(ours), plain, figures.count_tokens(theirs))
        _update_figures(
            stored, speedup_over_plain=speedup, speedup_tasks=sum(t.state is TaskState.FINISHED for t in theirs)
        )
        return stored


def _build_plain_spec(run: Run, task_ids: list[str]) -> RunSpec:
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


def _update_figures(run: Run, **values: object) -> None:
    run.figures = run.measured.model_copy(update=values)


@click.command("eval")
@add_spec_options(RunSpec)
@click.option(
    "--compare-plain",
    type=int,
    default=0,
    metavar="K",
    help="then decode K of the same prompts without drafting, and show the speed-up",
)
@click.option(
    "--extra-body",
    default="",
    metavar="JSON",
    help='fields for every request to another server, such as \'{"chat_template_kwargs": {"enable_thinking": false}}\'',
)
@click.option(
    "--tokenizer", default="", metavar="MODEL",
    help="counts the tokens of an openai: target whose server does not",
)  # fmt: skip
@add_quiet_flag("do not wait")
@common.json_option
def evaluate(
    json_file: str | None,
    compare_plain: int,
    wait_for_quiet: bool | None,
    extra_body: str,
    tokenizer: str,
    **options: Any,
) -> None:
    """Create a run and finish it in this process, or in `bassline serve` while that has the database.

    Example:
        bassline eval --target qwen2.5-coder-0.5b --limit 5 --n 8 --budget 10
        bassline eval --target smollm2-135m --task HumanEval/0 --temperature 0 --n 1 --json -
        bassline eval --target openai:Qwen/Qwen2.5-Coder-7B@http://gpu7:8000/v1 --limit 20
    """
    options["target"] = add_tokenizer(add_extra_body(options["target"], extra_body), tokenizer)
    limit_s = QuietChoice(wait_for_quiet, options["quiet_limit_s"]).get_limit_s(default=False)
    spec = parse_options(RunSpec, options | {"quiet_limit_s": limit_s})
    if compare_plain < 0:
        raise BadInputError(f"compare-plain is {compare_plain}: give how many prompts, 0 or more", "compare_plain")
    if compare_plain and spec.throughput:
        raise BadInputError(
            "compare-plain compares tasks decoded one at a time: leave it out, or --throughput", "compare_plain"
        )
    ctx = common.open_context()
    service.resolve_tasks(ctx, spec)
    ctx.make_grader()  # without a sandbox, fail before decoding
    with foreground.hold_workers(ctx, "eval") as site:
        spec = handover.prepare_for_server(ctx, spec) if site.server else spec
        run_id = service.submit(ctx, spec, command=common.format_typed_command(), **site.options)
        run = site.wait_for_run(run_id)
        if compare_plain:
            run = compare_with_plain(ctx, site, run, compare_plain)
        foreground.report_run(ctx, run, json_file)
