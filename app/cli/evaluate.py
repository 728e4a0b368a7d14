"""`bassline eval`."""

from __future__ import annotations

from typing import Any

import click

from app.cli import common, foreground, handover
from app.cli.options import QuietChoice, add_quiet_flag, add_spec_options, parse_options
from app.core.remote.target import add_extra_body, add_tokenizer
from app.runs import service
from app.runs.schemas import RunSpec


@click.command("eval")
@add_spec_options(RunSpec)
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
    ctx = common.open_context()
    service.resolve_tasks(ctx, spec)
    ctx.make_grader()  # without a sandbox, fail before decoding
    with foreground.hold_workers(ctx, "eval") as site:
        spec = handover.prepare_for_server(ctx, spec) if site.server else spec
        run_id = service.submit(ctx, spec, command=common.format_typed_command(), **site.options)
        foreground.report_run(ctx, site.wait_for_run(run_id), json_file)
