"""`bassline study`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from app.cli import common, foreground, report
from app.cli.options import QuietChoice, add_given_options, add_quiet_options, name_option_in_errors, parse_options
from app.cli.run_and_study import add_commands, archived_option, open_and_find_row, print_rows
from app.cli.study_engines import SHARED_OPTIONS, engines
from app.core.errors import BadInputError
from app.core.terminal import echo
from app.runs.documents import to_plain_json
from app.runs.quiet import find_quiet_limit
from app.runs.schemas import ArmOptions
from app.studies import documents, export, files, loading, progress, repository, service
from app.studies.analysis import analyse_study
from app.studies.grid import PRESETS, build_grid, build_preset_arms
from app.studies.schemas import StudySpec
from app.web.http.schemas import parse_spec
from evaluation.decisions import MARGIN
from evaluation.jsonlines import MAX_BYTES

margin_option = click.option(
    "--margin",
    type=float,
    callback=common.check_margin,
    metavar="POINTS",
    default=100 * MARGIN,
    show_default=True,
    help="a cheaper arm counts as equally good if it is shown to be at most this many points worse",
)


@click.group()
def study() -> None:
    """Find which configuration wins at a budget: its arms take turns over the same tasks.

    Example:
        bassline study run --preset bass --target qwen2.5-coder-0.5b --limit 20
    """


@study.command()
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--preset",
    type=common.SuggestingChoice(list(PRESETS)),
    help=" ".join(f"{name}: {preset.question}" for name, preset in PRESETS.items()),
)
@add_given_options(ArmOptions, several=True)
@add_given_options(StudySpec, *SHARED_OPTIONS)
@margin_option
@add_quiet_options
@common.json_option
def run(
    file: Path | None, preset: str | None, margin: float, json_file: str | None, quiet: QuietChoice, **options: Any
) -> None:
    """Create a study and finish it in this process, or in `bassline serve` while that has the database.

    The arms come from FILE (TOML), from a preset, or from every combination of the options that take several values.

    Example:
        bassline study run --preset bass --target qwen2.5-coder-0.5b --limit 20
        bassline study run --target qwen2.5-coder-0.5b --drafter none,sibling --n 1,4,8 --budget 5 --race
        bassline study run arms.toml --json -
    \b
    FILE (- for standard input):
        [study]
        budget_s = 5
        limit = 40
        [[arms]]
        target = "qwen2.5-coder-0.5b"
        drafter = "none"
        n = 1
        [[arms]]
        target = "qwen2.5-coder-0.5b"
        n = 8
    """
    spec = _build_spec(file, preset, {name: value for name, value in options.items() if value not in (None, ())}, quiet)
    ctx = common.open_context()
    service.resolve_spec(ctx, spec)
    ctx.make_grader()  # without a sandbox, fail before decoding
    with foreground.hold_workers(ctx, "study run") as site:
        # The file may change later, so the stored command contains its content.
        study_id = site.submit_study(spec, command="" if file else common.format_typed_command())
        site.wait_for_study(study_id)
    report.report_study(ctx, study_id, json_file, margin / 100)


@study.command("list")
@common.limit_option
@archived_option
@common.json_option
def list_(limit: int, json_file: str | None, archived: bool) -> None:
    """Studies, newest first; archived ones only with --archived.

    Example:
        bassline study list
        bassline study list --archived
    """
    ctx = common.open_context()
    with ctx.database.read() as session:
        studies = repository.list_studies(session, limit=limit, archived=archived)
        done = progress.compute_run_progress(session, [arm.run_id for one in studies for arm in one.arms])
    found = [documents.build_overview(one, done) for one in studies]
    common.write_json(json_file, [to_plain_json(one) for one in found])
    rows = []
    for one in found:
        tasks = f"{sum(arm.tasks for arm in one.arms)}/{sum(arm.n_tasks for arm in one.arms)}"
        elsewhere = one.study.measured_elsewhere
        place = f"{elsewhere} (another machine)" if elsewhere else one.study.device
        rows.append((one.study, (str(len(one.arms)), tasks, place)))
    empty_text = "No studies yet: make one with `bassline study run --preset bass --target MODEL`."
    print_rows(json_file, ("arms", "tasks", "measured on"), rows, empty_text)


@study.command()
@click.argument("reference", metavar="ID")
@click.option(
    "--budget", type=float, callback=common.check_positive, metavar="SECONDS", help="also answer for this budget"
)
@margin_option
@common.json_option
def show(reference: str, budget: float | None, margin: float, json_file: str | None) -> None:
    """What a study says (id, beginning of an id, or name).

    Example:
        bassline study show nightly --budget 3
        bassline study show nightly --margin 10
    """
    ctx, found = open_and_find_row(repository.find_study, reference)
    report.print_study(report.build_study_document(ctx, found.id, budget, margin / 100), json_file)


@study.command()
@click.argument("reference", metavar="ID")
@add_quiet_options
@common.json_option
def resume(reference: str, json_file: str | None, quiet: QuietChoice) -> None:
    """Finish the remaining tasks of an ended study: in this process, or in `bassline serve` while that has the
    database.

    Example:
        bassline study resume 01a1fde0
    """
    ctx, found = open_and_find_row(repository.find_study, reference)
    limit_s = quiet.get_limit_s(find_quiet_limit(found.runs))
    with foreground.hold_workers(ctx, "study resume") as site:
        service.resume(ctx, found.id, **site.options)
        service.set_quiet_limit(ctx, found.id, limit_s)
        site.wait_for_study(found.id)
    report.report_study(ctx, found.id, json_file)


@study.command("export")
@click.argument("reference", metavar="ID")
@click.option("--format", "form", type=common.SuggestingChoice(export.FORMATS), default="json", show_default=True)
@common.output_option
def export_(reference: str, form: str, output: str) -> None:
    """A study as JSON, CSV (every arm at every budget), Markdown (a report), or archive (all samples, for `load`).

    Example:
        bassline study export nightly --format markdown
        bassline study export nightly --format archive -o nightly.json.gz
    """
    ctx = common.open_context()
    if form == "archive" and output == "-":
        raise BadInputError("an archive is binary: give --output FILE", "output")
    with ctx.database.read() as session:
        found = repository.find_study(session, reference)
        chunks = export.export_study(ctx.database, session, found, form, lambda: analyse_study(session, found))
    common.write_chunks(output, chunks)


@study.command()
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
def load(file: Path | None) -> None:
    """Store a study that was measured elsewhere, from its archive; without FILE the reference studies that come
    with Bassline.

    Example:
        bassline study load
        bassline study load nightly.json.gz
    """
    ctx = common.open_context()
    with ctx.database.read() as session:
        before = repository.list_study_ids(session)
    if file is None:
        ids = loading.load_reference_studies(ctx)
    else:
        ids = [loading.load_study(ctx, common.read_bytes(file, MAX_BYTES + 1), file.name)]
    for study_id in ids:
        what = f"{study_id} is here already, unchanged" if study_id in before else f"loaded {study_id}"
        echo(f"{what}: `bassline study show {study_id}` shows it")


study.add_command(engines)
add_commands(
    study,
    "study",
    repository.find_study,
    service.cancel,
    service.delete,
    service.annotate,
    " with the runs of its arms",
)


def _build_spec(file: Path | None, preset: str | None, given: dict[str, Any], quiet: QuietChoice) -> StudySpec:
    """The study that the options ask for. Says on stderr which combinations were left out."""
    values = {name: given.pop(name) for name in ArmOptions.model_fields if name in given}
    if file is not None:
        if preset or values:
            other = "preset" if preset else next(iter(values))
            raise BadInputError(f"{file} defines the arms: leave --{other.replace('_', '-')} out", other)
        asked = files.parse_study_file(common.read_bytes(file, files.MAX_FILE_BYTES + 1), file.name)
        try:
            asked["quiet_limit_s"] = quiet.get_limit_s(asked.get("quiet_limit_s"))
            return parse_spec(StudySpec, {**asked, **given})
        except BadInputError as error:
            raise BadInputError(f"{file.name}: {error}", error.field) from None
    with name_option_in_errors():
        if preset is not None:
            made = build_preset_arms(preset, values.pop("target", ()), values)
        elif "target" in values:
            made = build_grid(values)
        else:
            raise BadInputError("target is missing: give --target, or FILE, or --preset", "target")
    for sentence in made.left_out:
        echo(sentence, err=True)
    return parse_options(StudySpec, {**given, "arms": made.arms, "quiet_limit_s": quiet.get_limit_s()})
