"""`bassline study engines`."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import click

from app.cli import common, foreground, report
from app.cli.options import CommaSeparated, QuietChoice, add_given_options, add_quiet_options, parse_options
from app.core.context import Context
from app.core.errors import BadInputError, ConflictError
from app.core.terminal import echo
from app.runs.schemas import ArmOptions
from app.studies import files, repository, service
from app.studies.engines import ENGINE_FIELDS, ENGINE_PRESETS, NONE, OWN, EngineArms, build_arms, cross_engines
from app.studies.schemas import StudySpec

SHARED_OPTIONS = ("dataset", "limit", "task_ids", "weak", "budget_s", "seed", "name", "race")
EACH_ARM = ("n", "max_tokens", "temperature", "top_p", "prompt_mode")
_GPU = Path("/dev/nvidiactl")


@click.command("engines")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--engine", type=CommaSeparated(click.STRING), metavar="A,B,...",
    help=f"arms without a file: {', '.join((*ENGINE_PRESETS, OWN))}",
)  # fmt: skip
@click.option("--model", default="", metavar="MODEL", help="the model of these engines, a reference as for --target")
@click.option("--draft", default="", metavar="MODEL", help="the draft model or head of their speculation")
@click.option(
    "--speculation", type=CommaSeparated(click.STRING), metavar="A,B,...", default=NONE, show_default=True,
    help="none, ngram, suffix, draft, eagle3, dflash, mtp; for engine bassline also sibling, trained",
)  # fmt: skip
@click.option("--tokenizer", default="", metavar="MODEL", help="counts the tokens of servers that do not")
@click.option(
    "--one-at-a-time/--together", "one_at_a_time", default=None,
    help="stop each server that a command has started before the next one is needed  [default: where there is a GPU]",
)  # fmt: skip
@click.option("--resume", "resumed", metavar="ID", help="finish this study, which was made of the same arms")
@add_given_options(ArmOptions, *EACH_ARM)
@add_given_options(StudySpec, *SHARED_OPTIONS)
@add_quiet_options
@common.json_option
def engines(
    file: Path | None,
    tokenizer: str,
    one_at_a_time: bool | None,
    resumed: str | None,
    json_file: str | None,
    quiet: QuietChoice,
    **options: Any,
) -> None:
    """Which engine, with which speculation, at my budget? Servers take turns with each other and with our engine.

    Servers are started by the commands in FILE or in presets and stopped at the end. An arm whose server fails is left
    out, and the others go on.

    Example:
        bassline study engines --engine vllm,llama.cpp,bassline --model qwen2.5-coder-0.5b --speculation none,ngram
        bassline study engines engines.toml --limit 80 --budget 5
    \b
    FILE:
        [study]
        budget_s = 5
        [[arms]]
        engine = "vllm"                     # a preset
        model = "Qwen/Qwen2.5-Coder-7B"
        speculation = "ngram"
        [[arms]]
        url = "http://gpu7:8000/v1"         # a server that runs
        model = "M"
        [[arms]]
        command = "my-server --port {port}" # or what starts one
        health = "http://127.0.0.1:9000/health"
        port = 9000
        model = "M"
        env = { TOKEN = "$TOKEN" }
        [[arms]]
        target = "qwen2.5-coder-7b"         # as in any study
    """
    presets = {name: options.pop(name) for name in ("engine", "model", "draft", "speculation")}
    given = {name: value for name, value in options.items() if value not in (None, ())}
    defaults = {name: given.pop(name) for name in EACH_ARM if name in given}
    if file is not None:
        if other := next((name for name in ("engine", "model", "draft") if presets[name]), None):
            raise BadInputError(f"{file} defines the arms: leave --{other} out", other)
        asked = files.parse_study_file(common.read_bytes(file, files.MAX_FILE_BYTES + 1), file.name, ENGINE_FIELDS)
        tables, given = asked.pop("arms"), {**asked, **given}
    else:
        tables = _cross_options(**presets)
    found = build_arms(tables, defaults, tokenizer)
    given["quiet_limit_s"] = quiet.get_limit_s(given.get("quiet_limit_s"))
    spec = parse_options(StudySpec, {**given, "arms": found.arms})
    ctx = common.open_context()
    ctx.servers.one_at_a_time = _GPU.exists() if one_at_a_time is None else one_at_a_time
    for target, command, facts in found.servers:
        ctx.servers.declare(target, command, facts)
    study_id = _run_or_resume(ctx, spec, found, resumed)
    report.report_study(ctx, study_id, json_file)


def _cross_options(
    engine: tuple[str, ...] | None, model: str, draft: str, speculation: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The arms of the options. Says on stderr which combinations were left out."""
    if not engine or not model:
        missing = "model" if engine else "engine"
        raise BadInputError(f"--{missing} is missing: give --engine and --model, or FILE", missing)
    tables, left_out = cross_engines(engine, speculation, {"model": model, **({"draft": draft} if draft else {})})
    for sentence in left_out:
        echo(sentence, err=True)
    return tables


def _run_or_resume(ctx: Context, spec: StudySpec, found: EngineArms, resumed: str | None) -> uuid.UUID:
    """Runs or resumes the study, and stops its servers. Returns its id."""
    study_id = _find_resumed(ctx, spec, resumed) if resumed is not None else None
    if study_id is None:
        service.resolve_spec(ctx, spec)
    ctx.make_grader()  # without a sandbox, fail before decoding
    try:
        with foreground.hold_workers(ctx, "study engines") as site:
            if site.server and found.has_commands:
                raise ConflictError(
                    "`bassline serve` has this database, and it starts no other servers: stop it, or start the servers "
                    "and give their addresses as url"
                )
            if study_id is not None:
                service.resume(ctx, study_id, **site.options)
            else:
                study_id = site.submit_study(spec, command=common.format_typed_command())
            site.wait_for_study(study_id)
    finally:
        ctx.servers.stop()
    return study_id


def _find_resumed(ctx: Context, spec: StudySpec, reference: str) -> uuid.UUID:
    with ctx.database.read() as session:
        study = repository.find_study(session, reference)
        stored = [(arm.name, arm.run.target) for arm in study.arms]
    if stored != [(name, arm.target) for name, arm in zip(spec.list_names(), spec.arms, strict=True)]:
        raise BadInputError(f"the study {reference} has other arms: give its own file and options", "resume")
    return study.id
