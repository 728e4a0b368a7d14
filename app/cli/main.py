"""The command line `bassline`. Progress on stderr, results on stdout.

Exit codes: 0 done, 1 failed, 2 usage, 3 worse (`runs compare --fail-if-worse`).
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import re
import sys
from functools import cache
from typing import IO, Any

import click

from app.core.errors import BadInputError, BasslineError, UnavailableError
from app.core.terminal import escape_control
from decoding.models.errors import ModelError
from decoding.suggest import build_advice

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
COMMANDS = {
    "eval": "app.cli.evaluate:evaluate",
    "complete": "app.cli.complete:complete",
    "serve": "app.cli.serve:serve",
    "web": "app.cli.serve:web",
    "worker": "app.cli.serve:worker",
    "beat": "app.cli.serve:beat",
    "runs": "app.cli.runs:runs",
    "study": "app.cli.study:study",
    "audit": "app.cli.audit:audit",
    "advise": "app.cli.advise:advise",
    "jobs": "app.cli.jobs:jobs",
    "leaderboard": "app.cli.leaderboard:leaderboard",
    "datasets": "app.cli.datasets:datasets",
    "models": "app.cli.models:models",
    "drafter": "app.cli.drafter:drafter",
    "sandbox": "app.cli.sandbox:sandbox",
    "doctor": "app.cli.doctor:doctor",
    "bench": "app.cli.bench:bench",
    "db": "app.cli.admin:db",
    "tokens": "app.cli.admin:tokens",
    "users": "app.cli.admin:users",
}


class CommandError(click.ClickException):
    """One of our errors as click shows it: a sentence on stderr and the exit code of its kind."""

    def __init__(self, error: BasslineError) -> None:
        super().__init__(escape_control(str(error)))
        self.exit_code = error.exit_code  # type: ignore[misc]
        # A warning only: the container restarts until the outage ends, and readiness reports it.
        self._level = "warning" if isinstance(error, UnavailableError) else "error"

    def show(self, file: IO[Any] | None = None) -> None:
        """Writes the sentence for people, or as a line of the log."""
        from app.core import observability  # noqa: PLC0415

        if observability.must_write_json_lines():
            observability.write_line(self.format_message(), self._level)
        else:
            super().show(file)


class LazyGroup(click.Group):
    """A group that imports a command when it is needed, so that `bassline --help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All command names, in the order of the table above."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None if there is no such word."""
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command meant by the first word, or the nearest one in the sentence that refuses it."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            use = "`bassline --help` lists the commands"
            ctx.fail(f"there is no command {escape_control(name)!r}: {build_advice(name, COMMANDS, use)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; our errors become one sentence."""
        try:
            return super().invoke(ctx)
        except BasslineError as error:
            raise CommandError(error) from None
        except ModelError as error:
            raise CommandError(BasslineError(str(error))) from None
        except Exception as error:
            outage = explain_failure(error)
            if outage is None:
                raise
            raise CommandError(outage) from None


def explain_failure(error: Exception) -> UnavailableError | None:
    """What users are told of a database that is away, locked or full, and of a disk without room; else None."""
    if isinstance(error, OSError):
        if error.errno not in NO_ROOM:
            return None
        _drop_unwritten_output()
        where = f" for {error.filename}" if error.filename else ""
        return UnavailableError(f"the disk has no room left{where} ({error.strerror}): free some space and try again")
    if "sqlalchemy" not in sys.modules:
        return None
    from app.core.db.database import OUTAGES, explain_outage  # noqa: PLC0415 (`bassline --help` needs no database)

    return explain_outage(error) if isinstance(error, OUTAGES) else None


def _drop_unwritten_output() -> None:
    """Discards buffered output so that the process can exit: stdout's own disk may be the full
    one."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bassline")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Evaluate code models against the clock: Pass@First and Pass@All within a wall-clock budget.

    \b
    Example:
        bassline eval --target qwen2.5-coder-0.5b --limit 5 --budget 10
    """
    try:
        _log_to_stderr()
    except BadInputError:
        if ctx.invoked_subcommand != "doctor":  # which reports it with its other findings
            raise


@cache
def _load(name: str) -> click.Command:
    module, _, attribute = COMMANDS[name].partition(":")
    gc.disable()  # nothing that a module makes as it is imported is garbage: looking takes a sixth of the time
    try:
        found = getattr(importlib.import_module(module), attribute)
    finally:
        gc.enable()
    assert isinstance(found, click.Command)
    _keep_lines(found)
    return found


def _keep_lines(command: click.Command) -> None:
    """Marks the examples of the command, so that `--help` does not wrap them into one paragraph."""
    command.help = re.sub(r"^( *)Example:", "\\1\b\n\\1Example:", command.help or "", flags=re.MULTILINE)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _keep_lines(each)


def main() -> None:
    """The console script."""
    cli.main(prog_name="bassline")


def _log_to_stderr() -> None:
    from app.core import observability  # noqa: PLC0415
    from app.core.settings import load_settings  # noqa: PLC0415

    observability.configure(load_settings())
