"""What several commands need: the option --json, consoles, JSON output, figures as text."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app import domains
from app.core.context import Context, make_context
from app.core.db import migrate
from app.core.errors import BadInputError, UnavailableError
from app.core.terminal import echo, echo_data, open_stderr, open_stdout
from app.web.ui.tables import TextTable
from decoding.suggest import suggest_one_of


def check_writable(_ctx: click.Context, option: click.Parameter, target: str | None) -> str | None:
    """The callback of an option for a file to write: refuses one that cannot be written before any work is done."""
    flag = option.opts[0]
    if target in (None, "-"):
        return target
    folder = Path(target).parent
    if not folder.is_dir():
        raise BadInputError(f"{flag} {target} cannot be written: there is no folder {folder}", flag.lstrip("-"))
    if Path(target).is_dir() or not os.access(target if Path(target).exists() else folder, os.W_OK):
        raise BadInputError(
            f"{flag} {target} cannot be written: give a file that may be written, or - for stdout", flag.lstrip("-")
        )
    return target


def check_positive(_ctx: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """The callback of an option in seconds. Raises BadInputError unless it is a number above 0."""
    if value is not None and not 0 < value < math.inf:
        raise BadInputError(f"{option.name} is {value:g}: give a number of seconds above 0", option.name)
    return value


def check_margin(_ctx: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """The callback of a margin. Raises BadInputError unless it is a number of points above 0, at most 100."""
    if value is not None and not 0 < value <= 100:
        raise BadInputError(f"{option.name} is {value:g}: give points above 0, at most 100, such as 5", option.name)
    return value


class SuggestingChoice(click.Choice[str]):
    """One of a few words; the error for a mistyped one suggests the nearest."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Replaces the sentence of click."""
        return f"{value!r}: {suggest_one_of(str(value), self.choices)}"


json_option = click.option(
    "--json", "json_file", metavar="FILE", callback=check_writable, help="also write the result as JSON; - for stdout"
)
limit_option = click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
output_option = click.option(
    "-o", "--output", metavar="FILE", default="-", show_default=True, callback=check_writable, help="- for stdout"
)


def add_row_command(
    group: click.Group, name: str, sentence: str, example: str, act: Callable[[Context, str], str], metavar: str = "ID"
) -> None:
    """Adds a command that does something to the row which its argument names, and prints what `act` returns."""

    @group.command(name, help=f"{sentence}\n\nExample:\n    bassline {group.name} {name} {example}")
    @click.argument("reference", metavar=metavar)
    def run(reference: str) -> None:
        echo(act(open_context(), reference))


def open_context() -> Context:
    """A context whose database is at the newest schema. Raises UnavailableError or BadInputError."""
    assert domains.metadata.tables
    ctx = make_context()
    migrate.ensure_newest_schema(ctx.database)
    return ctx


def read_bytes(file: Path, limit: int = -1) -> bytes:
    """The first `limit` bytes of a file, or of standard input for `-`; without a limit all. Raises BadInputError."""
    if str(file) == "-":
        return sys.stdin.buffer.read(limit)
    try:
        with file.open("rb") as opened:
            return opened.read(limit)
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror}", "file") from None


def read_text(file: str) -> str:
    """The text of a UTF-8 file, or of standard input for `-`. Raises BadInputError."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadInputError(f"{file} cannot be read: {reason}", "file") from None


def write_json(target: str | None, document: Any) -> None:
    """Writes to FILE, or to stdout for `-`; does nothing for None. Raises UnavailableError if the file cannot be
    written."""
    if target is not None:
        write_text(target, json.dumps(document, indent=2, default=str) + "\n")


def write_chunks(target: str, chunks: Iterable[bytes]) -> None:
    """Writes to FILE, whole or not at all, or for `-` to stdout, where the chunks must be text.

    Raises UnavailableError if the file cannot be written.
    """
    if target == "-":
        for chunk in chunks:
            echo_data(chunk.decode())
        return
    path = Path(target).resolve()
    is_replaced = not path.exists() or path.is_file()  # a pipe or a device is not
    new = path.with_name(f".{path.name}.{os.getpid()}") if is_replaced else path
    try:
        try:
            with new.open("wb") as file:
                file.writelines(chunks)
            if is_replaced:
                new.replace(path)
        finally:
            if is_replaced:
                new.unlink(missing_ok=True)
    except OSError as error:
        raise UnavailableError(f"{target} cannot be written: {error.strerror}") from None


def write_text(target: str, text: str) -> None:
    """Writes as `write_chunks` does."""
    write_chunks(target, [text.encode()])


def format_typed_command() -> str:
    """The command as its user typed it."""
    return shlex.join(["bassline", *sys.argv[1:]])


def choose_console(json_file: str | None) -> Console:
    """Where the table goes: stdout, or stderr when stdout carries the JSON."""
    return open_stderr() if json_file == "-" else open_stdout()


def print_list(
    json_file: str | None, headings: Sequence[str], rows: Sequence[Sequence[str]], empty_text: str = ""
) -> None:
    """Prints the rows as a table, or `empty_text` where there are no rows."""
    choose_console(json_file).print(build_table(headings, rows) if rows or not empty_text else empty_text)


def build_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], whole: Collection[str] = ("id",), **options: Any
) -> Table:
    """A table without rules, with rich's `options`. Long cells are folded, except those under the headings `whole`."""
    made = Table(box=None, pad_edge=False, **options)
    for heading in headings:
        made.add_column(heading, overflow="fold", no_wrap=heading in whole)
    for row in rows:
        made.add_row(*row)
    return made


MAX_CELL_WIDTH = 60
"""Characters of a cell that a pipe gets on one line."""


def print_line(console: Console, text: str | Text, **options: Any) -> None:
    """Prints a sentence: on a terminal wrapped at its edge, into a pipe on one line."""
    console.print(text, highlight=False, soft_wrap=not console.is_terminal, **options)


def print_text_table(console: Console, found: TextTable, whole: Collection[str] = ()) -> None:
    """Prints a table with its title and its note above it."""
    if not console.is_terminal:  # a pipe has no edge at which headings and names would have to break
        cells = zip(found.headings, *found.rows, strict=True)
        console.width = max(console.width, sum(min(max(map(len, column)), MAX_CELL_WIDTH) + 2 for column in cells))
    console.print()
    print_line(console, found.title, style="bold")  # rich would wrap a table's title to the table's width
    if found.note:
        print_line(console, found.note, style="dim")
    console.print(build_table(found.headings, found.rows, whole, padding=(0, 2, 0, 0)))


def build_pairs(title: str, rows: list[tuple[str, str]]) -> Table:
    """A two-column table without rules."""
    made = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(style="bold", no_wrap=True)
    made.add_column()
    for row in rows:
        made.add_row(*row)
    return made


def format_number(value: float | None, unit: str = "", digits: int = 1) -> str:
    """A figure with its unit, or a dash."""
    return "–" if value is None else f"{value:.{digits}f}{unit}"
