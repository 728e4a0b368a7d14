"""What `bassline runs` and `bassline study` share: their lists, and the commands that cancel, delete and annotate."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar

import click
from sqlalchemy.orm import Session

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
    group: click.Group,
    what: str,
    find: Callable[[Session, str], Named],
    cancel: Callable[[Context, uuid.UUID], None],
    delete: Callable[[Context, uuid.UUID], None],
    annotate: Callable[[Context, uuid.UUID, AnnotationChanges], None],
    along: str = "",
) -> None:
    """Adds `cancel`, `delete`, `note`, `archive` and `unarchive` to a group.

    `what` is "run" or "study", `find` finds one by the user's text, and `along` says what is archived
    and deleted with it.
    """

    def make_action(change: Callable[[Context, uuid.UUID], None], done: str) -> Callable[[Context, str], str]:
        def act(ctx: Context, reference: str) -> str:
            with ctx.database.read() as session:
                found = find(session, reference)
            change(ctx, found.id)
            return f"{done} {found.name}"

        return act

    def archive(ctx: Context, row_id: uuid.UUID) -> None:
        annotate(ctx, row_id, AnnotationChanges(archived=True))

    def unarchive(ctx: Context, row_id: uuid.UUID) -> None:
        annotate(ctx, row_id, AnnotationChanges(archived=False))

    for name, sentence, change, done in (
        ("cancel", f"Stop a {what} in another process; finished samples are kept.", cancel, "cancelled"),
        ("delete", f"Remove an ended {what}{along or ' with its samples'}.", delete, "deleted"),
        ("archive", f"Leave a {what}{along} out of lists and the first page.", archive, "archived"),
        ("unarchive", f"Return an archived {what}{along} to lists.", unarchive, "brought back"),
    ):
        common.add_row_command(group, name, sentence, "demo", make_action(change, done))

    @group.command(
        help=f"Write a note on a {what}, replacing the present one; - reads it from standard input, '' removes it.\n\n"
        f"Example:\n    bassline {group.name} note demo 'first run with the new drafter'"
    )
    @click.argument("reference", metavar="ID")
    @click.argument("text", metavar="TEXT")
    def note(reference: str, text: str) -> None:
        given = sys.stdin.read(LONGEST_NOTE + 2) if text == "-" else text
        changes = parse_spec(AnnotationChanges, {"note": given})
        ctx, found = open_and_find_row(find, reference)
        annotate(ctx, found.id, changes)
        echo(f"{'noted on' if changes.note else 'removed the note of'} {found.name}")
