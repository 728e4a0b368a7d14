"""The commands that change tags, note, star and archive of runs and studies, and the options that filter by them."""

from __future__ import annotations

import functools
import sys
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import click
from pydantic import ValidationError
from sqlalchemy.orm import Session

from app.annotations.models import Annotatable
from app.annotations.schemas import LONGEST_NOTE, Changes
from app.annotations.selection import Selection
from app.annotations.tags import parse_tag
from app.commands import common
from app.context import Context
from app.db.types import Named
from app.http.schemas import bad_input
from app.ui.terminal import echo

C = TypeVar("C", bound=Callable[..., Any])


def selection_options(command: C) -> C:
    """Decorates a command with --tag, --starred and --archived, which it receives as `selection`."""

    @functools.wraps(command)
    def selecting(*args: Any, tag: str | None, starred: bool, archived: bool, **others: Any) -> Any:
        asked = Selection(None if tag is None else parse_tag(tag), starred=starred, archived=archived)
        return command(*args, selection=asked, **others)

    decorated: Any = selecting
    for option in (
        click.option("--archived", is_flag=True, help="archived ones as well"),
        click.option("--starred", is_flag=True, help="only starred ones"),
        click.option("--tag", metavar="WORD", help="only with this tag"),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def add_commands(
    group: click.Group,
    what: str,
    find: Callable[[Session, str], Named],
    change: Callable[[Context, uuid.UUID, Changes], None],
    along: str = "",
) -> None:
    """Adds `tag`, `note`, `star`, `unstar`, `archive` and `unarchive` to the commands of runs or studies.

    `what` is the word for one of them, `find` finds it by what the user typed, and `change` changes it. `along` says
    what is archived with it.
    """
    start = f"bassline {group.name}"
    row = click.argument("reference", metavar=what.upper())

    def changed(reference: str, changes: Changes) -> Named:
        """The row after the change."""
        ctx = common.opened_context()
        with ctx.database.read() as session:
            row_id = find(session, reference).id
        change(ctx, row_id, changes)
        with ctx.database.read() as session:
            return find(session, str(row_id))

    @group.command(help=_help(f"Add tags to a {what}, or remove them.", f"{start} tag demo add nightly h100"))
    @row
    @click.argument("action", metavar="add|remove", type=common.Choice(["add", "remove"]))
    @click.argument("words", metavar="WORD...", nargs=-1, required=True)
    def tag(reference: str, action: str, words: tuple[str, ...]) -> None:
        tags = tuple(map(parse_tag, words))
        found = changed(reference, _changes(**{f"{action}_tags": tags}))
        assert isinstance(found, Annotatable)
        echo(f"{found.name}: {', '.join(found.tags) or 'no tags'}")

    @group.command(
        help=_help(
            f"Write a note on a {what}, replacing the present one; - reads it from standard input, '' removes it.",
            f"{start} note demo 'first run with the new drafter'",
        )
    )
    @row
    @click.argument("text", metavar="TEXT")
    def note(reference: str, text: str) -> None:
        given = sys.stdin.read(LONGEST_NOTE + 2) if text == "-" else text
        found = changed(reference, _changes(note=given))
        assert isinstance(found, Annotatable)
        echo(f"{'noted on' if found.note else 'removed the note of'} {found.name}")

    for word, done, about, changes in (
        ("star", "starred", f"Mark a {what} as worth finding again.", Changes(starred=True)),
        ("unstar", "unstarred", f"Remove the star of a {what}.", Changes(starred=False)),
        ("archive", "archived", f"Leave a {what}{along} out of lists and the first page.", Changes(archived=True)),
        ("unarchive", "brought back", f"Return an archived {what}{along} to lists.", Changes(archived=False)),
    ):
        group.command(word, help=_help(about, f"{start} {word} demo"))(row(_mark(changed, done, changes)))


def _mark(changed: Callable[[str, Changes], Named], done: str, changes: Changes) -> Callable[[str], None]:
    def mark(reference: str) -> None:
        echo(f"{done} {changed(reference, changes).name}")

    return mark


def _help(sentence: str, example: str) -> str:
    return f"{sentence}\n\n\b\nExample:\n    {example}"


def _changes(**given: Any) -> Changes:
    try:
        return Changes(**given)
    except ValidationError as error:
        raise bad_input(error) from None
