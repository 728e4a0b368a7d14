"""--wait-for-quiet and --quiet-limit, which several commands have."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from app.cli import common
from app.core.errors import BadInputError
from app.runs.quiet import QUIET_LIMIT_S
from app.web.ui.units import seconds

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class QuietChoice:
    """What the options say; None for one that was not given."""

    wait: bool | None
    limit_s: float | None

    def get_limit_s(self, stored_s: float | None = None, *, default: bool | None = None) -> float | None:
        """How long to wait in all, None for not at all. A limit alone asks for waiting.

        Without options it is `stored_s`, what a file or an earlier command said, and else waits by `default`: None is
        yes on a terminal. Raises BadInputError.
        """
        if self.limit_s is not None and self.wait is False:
            raise BadInputError("--quiet-limit is for --wait-for-quiet: leave one of them out", "quiet_limit_s")
        if self.limit_s is not None:
            return self.limit_s
        if self.wait is None and stored_s is None:
            return QUIET_LIMIT_S if (sys.stderr.isatty() if default is None else default) else None
        if self.wait is False:
            return None
        return QUIET_LIMIT_S if stored_s is None else stored_s


def quiet_options(command: C) -> C:
    """Decorates a command that waits by default on a terminal with both options, which it receives as `quiet`."""

    @functools.wraps(command)
    def choosing(*args: Any, wait_for_quiet: bool | None, quiet_limit_s: float | None, **others: Any) -> Any:
        return command(*args, quiet=QuietChoice(wait_for_quiet, quiet_limit_s), **others)

    limit = click.option(
        "--quiet-limit", "quiet_limit_s", type=float, metavar="SECONDS", callback=common.positive,
        help=f"how long to wait for a quiet machine in all  [default: {seconds(QUIET_LIMIT_S)}]",
    )  # fmt: skip
    return quiet_flag("on a terminal")(limit(choosing))  # type: ignore[return-value]


def quiet_flag(default: str) -> Callable[[C], C]:
    """Decorates a command with --wait-for-quiet, None where it is not given; `default` says in the help what holds."""
    return click.option(
        "--wait-for-quiet/--no-wait-for-quiet", default=None,
        help=f"before each task wait until other programs leave the machine  [default: {default}]",
    )  # fmt: skip
