"""`--env`: the environment variables that a project's tests need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from app.core.errors import BadInputError
from evaluation.project_tests.judge import VARIABLE_PREFIX

env_option = click.option(
    "--env", "env", multiple=True, metavar="NAME[=VALUE]",
    help="a variable for the project's tests, also in the sandbox; may be repeated. The VALUE is stored with the "
    "dataset, since it is needed wherever answers are judged. With NAME alone only the name is stored: the value is "
    "this environment's, and must be set as BASSLINE_TESTS_NAME wherever answers are judged",
)  # fmt: skip


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
