"""Says which of a project's files are stored for its tests, and asks about those that look like secrets."""

from __future__ import annotations

import sys

import click
from rich.filesize import decimal as format_bytes

from app.core.errors import BadInputError
from app.core.terminal import echo
from app.web.ui.units import format_count
from evaluation.from_code.project_tests.own_files import IGNORED, OwnFiles, list_own_files
from evaluation.from_code.source.project import Project

_SHOWN = 3
yes_option = click.option(
    "--yes", "assume_yes", is_flag=True, help="ask nothing: files whose names look like secrets are not stored"
)


def confirm_stored_files(project: Project, assume_yes: bool) -> bool:
    """Print what is stored where the project's tests judge; whether files that look like secrets are stored too.

    Without a terminal, or with `assume_yes`, nothing is asked and they are not.
    """
    try:
        own = list_own_files(project.root)
    except OSError as error:
        raise BadInputError(f"the project's folder cannot be read: {error}", "project") from None
    echo(_describe(own), err=True)
    if not own.secret_looking:
        return False
    echo("these files have names that look like secrets:", err=True)
    for path, size in own.secret_looking.items():
        echo(f"    {path} ({format_bytes(size)})", err=True)
    if assume_yes or not _can_ask():
        echo("they are not stored; on a terminal, without --yes, you are asked", err=True)
        return False
    return click.confirm("Store them too? Tests that read them fail without them.", default=False, err=True)


def _can_ask() -> bool:
    """Whether a user can answer a question."""
    return sys.stdin.isatty()


def _describe(own: OwnFiles) -> str:
    largest = ", ".join(f"{path} ({format_bytes(size)})" for path, size in own.find_largest(_SHOWN))
    ignored = sum(reason == IGNORED for reason in own.left_out.values())
    text = (
        f"if the project's tests judge a task, the database stores {format_count(len(own.stored), 'file')} of "
        f"{format_bytes(own.total_bytes)}; the largest: {largest or 'none'}"
    )
    entries = format_count(ignored, "entry")
    return f"{text}. Left out: {entries} of the folder that git ignores, but for modules that tests import"
