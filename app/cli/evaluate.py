"""`bassline eval`."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from app.cli import common, foreground, handover
from app.cli.options import parse_options, spec_options
from app.cli.plain_comparison import compare_with_plain
from app.cli.quiet import QuietChoice, quiet_flag
from app.core.errors import BadInputError
from app.runs import service
from app.runs.schemas import RunSpec


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
    with foreground.workers(ctx, "eval") as place:
        spec = handover.prepare_for_server(ctx, spec) if place.server else spec
        command = shlex.join(["bassline", *sys.argv[1:]])
        run_id = service.submit(ctx, spec, command=command, **place.options)
        run = place.work(run_id)
        if compare_plain:
            run = compare_with_plain(ctx, place, run, compare_plain)
        foreground.report(ctx, run, json_file)
