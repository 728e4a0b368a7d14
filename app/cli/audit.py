"""`bassline audit`."""

from __future__ import annotations

from typing import Any

import click

from app.cli import common, foreground
from app.cli.options import add_spec_options, parse_options
from app.cli.run_and_study import open_and_find_row
from app.runs.documents import to_plain_json
from app.studies import repository, service
from app.studies.audit import AuditDocument, AuditSpec, build_audit_document, list_audit_tables


@click.command("audit")
@add_spec_options(AuditSpec, off={"required": False}, on={"required": False})
@click.option("--study", "reference", metavar="ID", help="show an audit that has run, in place of starting one")
@common.json_option
def audit(reference: str | None, json_file: str | None, **options: Any) -> None:
    """Check whether speculation changes a server's answers: decode the same prompts without and with it, twice each,
    greedily and with sampling.

    Example:
        bassline audit --off openai:M@http://a/v1 --on openai:M@http://b/v1 --limit 164
        bassline audit --off smollm2-135m --on smollm2-135m --dtype float32 --limit 20 --json -
        bassline audit --study 01a1fde0
    """
    if reference is not None:
        ctx, found = open_and_find_row(repository.find_study, reference)
        study_id = found.id
    else:
        spec = parse_options(AuditSpec, {name: value for name, value in options.items() if value is not None})
        study = spec.build_study()
        ctx = common.open_context()
        service.resolve_spec(ctx, study, for_audit=True)
        ctx.make_grader()  # without a sandbox, fail before decoding
        with foreground.hold_workers(ctx, "audit") as site:
            study_id = site.submit_study(study, command=common.format_typed_command(), for_audit=True)
            site.wait_for_study(study_id)
    with ctx.database.read() as session:
        document = build_audit_document(session, repository.get_study(session, study_id))
    common.write_json(json_file, to_plain_json(document))
    _print(document, json_file)


def _print(document: AuditDocument, json_file: str | None) -> None:
    console = common.choose_console(json_file)
    profiles = [(side, _describe_profile(facts)) for side, facts in document.profiles.items()]
    # A table's title would be as narrow as the table.
    console.print(document.name, style="italic", highlight=False, soft_wrap=True)
    console.print(common.build_pairs("", [("study", str(document.study_id)), *profiles]))
    console.print()
    for table in list_audit_tables(document)[:1]:
        console.print(common.build_table(table.headings, table.rows))
    for each in document.decodings:
        console.print(f"{each.decoding}: {each.sentence}", soft_wrap=True)
    for text in document.tasks[:5]:
        place = f"{text.task_id}, sample {text.index}, {text.decoding}, from token {text.position}"
        console.print(f"\n{place}", highlight=False, soft_wrap=True)
        console.print(common.build_pairs("", [("off", repr(text.off)), ("on", repr(text.on))]))


def _describe_profile(facts: dict[str, Any]) -> str:
    names = (
        "target",
        "extra_body",
        "drafter",
        "server",
        "server_version",
        "server_speculation",
        "device_name",
        "dtype",
    )
    is_remote = "endpoint" in facts  # the server chooses its own drafter
    return ", ".join(str(facts[name]) for name in names if facts.get(name) and not (is_remote and name == "drafter"))
