"""`bassline doctor`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import click
from rich.text import Text

from app.cli import common
from app.core.errors import BadInputError, BasslineError
from app.core.settings import Settings, load_settings
from app.core.terminal import escape_control
from app.doctor import machine, service
from app.doctor.finding import Finding, run_check

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
Check = Callable[[], Iterable[Finding]]


@click.command()
@common.json_option
def doctor(json_file: str | None) -> None:
    """Check what works on this machine and how to fix the rest; exit 1 if a run could not work here.

    Example:
        bassline doctor
    """
    found = _collect_findings()
    document = {"ok": not _list_failures(found), "findings": [dataclasses.asdict(f) for f in found]}
    common.write_json(json_file, document | {"languages": machine.list_languages()})
    console = common.choose_console(json_file)
    for finding in found:
        words = [f"{finding.part:<20}{finding.what}", finding.remedy]
        status = (f"{finding.status:<5}", COLOURS[finding.status])
        common.print_line(console, Text.assemble(status, escape_control(" -> ".join(filter(None, words)))))
    if _list_failures(found):
        raise BasslineError(f"a run cannot work here yet: see {', '.join(dict.fromkeys(_list_failures(found)))} above")


def _list_failures(found: list[Finding]) -> list[str]:
    return [finding.part for finding in found if finding.status == "fail"]


def _collect_findings() -> list[Finding]:
    """All findings; checks that wait for a process or a server run at the same time."""
    checks: list[tuple[str, Check]] = [
        ("versions", machine.check_versions),
        ("device", machine.check_device),
        ("sandbox", machine.check_sandbox),
        ("languages", machine.check_languages),
    ]
    settings: Settings | None = None
    try:
        settings = load_settings()
    except BadInputError as error:
        sentence = str(error)
        checks.insert(
            0, ("settings", lambda: [Finding("settings", "fail", sentence, "Set it right in the environment.")])
        )
    if settings is not None:
        checks += [
            ("service", partial(service.check_service, settings)),
            ("models", partial(service.check_models, settings)),
            ("disk", partial(service.check_disks, settings)),
        ]
    with ThreadPoolExecutor(len(checks)) as pool:
        return [finding for found in pool.map(lambda check: run_check(*check), checks) for finding in found]
