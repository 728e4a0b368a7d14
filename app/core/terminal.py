"""Text on a terminal: names and model output are shown, never obeyed, neither as escape sequences nor as markup."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Console
from rich.text import Text

KEPT = "\n\t"
WIDTH = 120  # for output that is not a terminal, where rich would assume 80 columns


def escape_control(text: str, kept: str = KEPT) -> str:
    r"""The text with every character that a terminal might obey or hide, in Python's notation, as in `\x1b`.

    Those are control characters but for `kept`, marks of writing direction and other invisible formatting, lone
    surrogates, and line separators.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


class _Console(Console):
    """Rich's console, for which a string is text and nothing else, wherever it stands: line, cell, title."""

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as it will be shown."""
        return super().render_str(escape_control(text), **{**options, "markup": False, "emoji": False})


def open_stdout() -> Console:
    """A console for results."""
    return _Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def open_stderr() -> Console:
    """A console for progress."""
    return _Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else WIDTH)


def echo(text: str, *, err: bool = False) -> None:
    """One line (or several) as it is, to stdout or stderr."""
    click.echo(escape_control(text), err=err)


def echo_data(text: str) -> None:
    """Data to stdout: byte for byte into a file or a pipe, visible on a terminal."""
    click.echo(escape_control(text) if sys.stdout.isatty() else text, nl=False)
