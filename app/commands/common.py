"""What several commands need: the option --json, consoles, JSON output, figures as text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from app import tables
from app.context import Context, make_context
from app.db import migrate
from app.errors import BadInput, BasslineError, Unavailable
from app.ui.terminal import echo_data, stderr, stdout
from decoding.suggest import one_of


def _writable(_ctx: click.Context, _option: click.Parameter, target: str | None) -> str | None:
    """Refuses a file that cannot be written before the work of hours is done."""
    if target in (None, "-"):
        return target
    folder = Path(target).parent
    if not folder.is_dir():
        raise BadInput(f"--json {target} cannot be written: there is no folder {folder}", "json")
    if Path(target).is_dir() or not os.access(target if Path(target).exists() else folder, os.W_OK):
        raise BadInput(f"--json {target} cannot be written: give a file that may be written, or - for stdout", "json")
    return target


class Choice(click.Choice[str]):
    """One of a few words, with the nearest one suggested to who mistyped it."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """The message of click with our sentence."""
        return f"{value!r}: {one_of(str(value), self.choices)}"


json_option = click.option(
    "--json", "json_file", metavar="FILE", callback=_writable, help="also write the result as JSON; - for stdout"
)


def opened_context() -> Context:
    """A context whose database is at the newest schema. Raises Unavailable or BadInput."""
    assert tables.metadata.tables
    ctx = make_context()
    migrate.ensure(ctx.database)
    return ctx


def write_json(target: str | None, document: Any) -> None:
    """Writes to FILE or, for `-`, to stdout; nothing for None. Raises Unavailable if the file cannot be written."""
    if target is None:
        return
    text = json.dumps(document, indent=2, default=str) + "\n"
    if target == "-":
        echo_data(text)
        return
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"{target} cannot be written: {error.strerror}") from None


def result_console(json_file: str | None) -> Console:
    """Where the table goes: stdout, or stderr when stdout carries the JSON."""
    return stderr() if json_file == "-" else stdout()


def failed(sentence: str) -> BasslineError:
    """An error for exit code 1."""
    return BasslineError(sentence)


def pairs(title: str, rows: list[tuple[str, str]]) -> Table:
    """A two-column table without rules."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in rows:
        table.add_row(name, value)
    return table


def percent(share: float | None) -> str:
    """A share as text."""
    return "–" if share is None else f"{100 * share:.1f} %"


def number(value: float | None, unit: str = "", digits: int = 1) -> str:
    """A figure with its unit, or a dash."""
    return "–" if value is None else f"{value:.{digits}f}{unit}"


def interval(bounds: list[float] | tuple[float, float] | None) -> str:
    """A 95 % interval of shares as text."""
    return "" if bounds is None else f"95 % interval {100 * bounds[0]:.1f} to {100 * bounds[1]:.1f} %"
