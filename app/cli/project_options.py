"""What `advise` and `datasets from-code` ask about a project: variables for its tests, and which files to store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click
from rich.filesize import decimal as format_bytes

from app.core.errors import BadInputError
from app.core.terminal import echo
from app.web.ui.units import format_count
from evaluation.from_code.project_tests.own_files import IGNORED, list_own_files
from evaluation.from_code.source.project import Project
from evaluation.project_tests.judge import VARIABLE_PREFIX

_SHOWN = 3
env_option = click.option(
    "--env", "env", multiple=True, metavar="NAME[=VALUE]",
    help="a variable for the project's tests, also in the sandbox; may be repeated. The VALUE is stored with the "
    "dataset, since it is needed wherever answers are judged. With NAME alone only the name is stored: the value is "
    "this environment's, and must be set as BASSLINE_TESTS_NAME wherever answers are judged",
)  # fmt: skip
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
    largest = ", ".join(f"{path} ({format_bytes(size)})" for path, size in own.find_largest(_SHOWN))
    ignored = format_count(sum(reason == IGNORED for reason in own.left_out.values()), "entry")
    echo(
        f"if the project's tests judge a task, the database stores {format_count(len(own.stored), 'file')} of "
        f"{format_bytes(own.total_bytes)}; the largest: {largest or 'none'}. Left out: {ignored} of the folder that "
        "git ignores, but for modules that tests import",
        err=True,
    )
    if not own.secret_looking:
        return False
    echo("these files have names that look like secrets:", err=True)
    for path, size in own.secret_looking.items():
        echo(f"    {path} ({format_bytes(size)})", err=True)
    if assume_yes or not sys.stdin.isatty():
        echo("they are not stored; on a terminal, without --yes, you are asked", err=True)
        return False
    return click.confirm("Store them too? Tests that read them fail without them.", default=False, err=True)


def parse_variables(given: Sequence[str]) -> dict[str, str | None]:
    """The variables by name; None for a value taken from the environment. Raises BadInputError."""
    variables: dict[str, str | None] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name.isidentifier():
            raise BadInputError(f"--env {text}: give NAME=VALUE, or the NAME of a variable that is set here", "env")
        if not equals and name not in os.environ:
            raise BadInputError(
                f"--env {name}: the variable is not set here: set it, or give --env {name}=VALUE", "env"
            )
        variables[name] = value if equals else None
    return variables


@contextmanager
def set_variables(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Sets the variables for tests started by this process; those without a stored value are set for the judge too."""
    needed = {
        (VARIABLE_PREFIX + name if value is None else name): os.environ[name] if value is None else value
        for name, value in variables.items()
    }
    before = {name: os.environ.get(name) for name in needed}
    os.environ.update(needed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
