"""What `bassline runs` and `bassline study` share: their lists, and the commands that cancel, delete and annotate."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import click
from sqlalchemy.orm import Session

from app.annotations.models import Annotatable
from app.annotations.schemas import LONGEST_NOTE, AnnotationChanges, ArchivedQuery
from app.cli import common
from app.cli.options import add_spec_options
from app.core.context import Context
from app.core.db.types import Named
from app.core.terminal import echo
from app.runs.models import Run
from app.studies.documents import StudyHead
from app.web.http.schemas import parse_spec

R = TypeVar("R")
archived_option = add_spec_options(ArchivedQuery, "archived")


class Service(Protocol):
    """The use cases of the commands: the module app.runs.service or app.studies.service."""

    def annotate(self, ctx: Context, row_id: uuid.UUID, changes: AnnotationChanges, /) -> None:
        """Changes the note, or archives."""

    def cancel(self, ctx: Context, row_id: uuid.UUID, /) -> None:
        """Ends it; its finished samples are kept."""

    def delete(self, ctx: Context, row_id: uuid.UUID, /) -> None:
        """Removes it."""


def print_rows(
    json_file: str | None,
    headings: Sequence[str],
    rows: Sequence[tuple[Run | StudyHead, Sequence[str]]],
    empty_text: str,
) -> None:
    """Prints a line for each run or study, with its cells under `headings`, or `empty_text`."""
    lines = []
    for one, cells in rows:
        name = f"{one.name} (archived)" if one.archived else one.name
        lines.append((str(one.id), name, one.state, *cells, f"{one.created_at:%Y-%m-%d %H:%M}"))
    common.print_list(json_file, ("id", "name", "state", *headings, "created"), lines, empty_text)


def open_and_find_row(find: Callable[[Session, str], R], reference: str) -> tuple[Context, R]:
    """The context of the command, and the run or study that was typed."""
    ctx = common.open_context()
    with ctx.database.read() as session:
        return ctx, find(session, reference)


def add_commands(
    group: click.Group, what: str, find: Callable[[Session, str], Named], service: Service, along: str = ""
) -> None:
    """Adds `cancel`, `delete`, `note`, `archive` and `unarchive` to a group.

    `what` is "run" or "study", `find` finds one by the user's text, and `along` says what is archived
    and deleted with it.
    """
    start = f"bassline {group.name}"
    reference_argument = click.argument("reference", metavar="ID")

    @group.command(
        help=_format_help(
            f"Stop a {what} that another process works on; finished samples are kept.", f"{start} cancel demo"
        )
    )
    @reference_argument
    def cancel(reference: str) -> None:
        ctx, found = open_and_find_row(find, reference)
        service.cancel(ctx, found.id)
        echo(f"cancelled {found.name}")

    @group.command(
        help=_format_help(f"Remove an ended {what}{along or ' with its samples'}.", f"{start} delete 01a1fde0"),
    )
    @reference_argument
    def delete(reference: str) -> None:
        ctx, found = open_and_find_row(find, reference)
        service.delete(ctx, found.id)
        echo(f"deleted {found.name}")

    def apply_changes(reference: str, changes: AnnotationChanges) -> Named:
        """The row after the change."""
        ctx, found = open_and_find_row(find, reference)
        service.annotate(ctx, found.id, changes)
        with ctx.database.read() as session:
            return find(session, str(found.id))

    @group.command(
        help=_format_help(
            f"Write a note on a {what}, replacing the present one; - reads it from standard input, '' removes it.",
            f"{start} note demo 'first run with the new drafter'",
        )
    )
    @reference_argument
    @click.argument("text", metavar="TEXT")
    def note(reference: str, text: str) -> None:
        given = sys.stdin.read(LONGEST_NOTE + 2) if text == "-" else text
        found = apply_changes(reference, parse_spec(AnnotationChanges, {"note": given}))
        assert isinstance(found, Annotatable)
        echo(f"{'noted on' if found.note else 'removed the note of'} {found.name}")

    @group.command(
        help=_format_help(f"Leave a {what}{along} out of lists and the first page.", f"{start} archive demo")
    )
    @reference_argument
    def archive(reference: str) -> None:
        echo(f"archived {apply_changes(reference, AnnotationChanges(archived=True)).name}")

    @group.command(help=_format_help(f"Return an archived {what}{along} to lists.", f"{start} unarchive demo"))
    @reference_argument
    def unarchive(reference: str) -> None:
        echo(f"brought back {apply_changes(reference, AnnotationChanges(archived=False)).name}")


def _format_help(sentence: str, example: str) -> str:
    return f"{sentence}\n\nExample:\n    {example}"
